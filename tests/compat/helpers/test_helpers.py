import numpy as np
import pytest
import torch

from sample_profiler.compat.environments.interfaces import (
    TrainingInfoInterface,
    find_training_info_interface,
    num_env_steps,
)
from sample_profiler.compat.environments.interfaces import retry as retry_of_environments
from sample_profiler.compat.helpers.dictionaries import (
    copy_dict_structure,
    get_first_present,
    iter_dicts_recursively,
    iterate_recursively,
    iterate_recursively_with_prefix,
    list_of_dicts_to_dict_of_lists,
)
from sample_profiler.compat.helpers.rollouts import make_dones, samples_per_trajectory
from sample_profiler.compat.helpers.tensors import (
    TensorDict,
    cat_tensordicts,
    clone_tensordict,
    inference_context,
    masked_select,
    to_numpy,
    to_torch_dtype,
)
from sample_profiler.compat.helpers.utilities import retry, str2bool


def test_what_is_no_text_indexes_all_tensors():
    batch = TensorDict(a=torch.arange(4), inner={"b": torch.zeros(4, 2)})
    assert batch["a"] is not None and batch[1:3]["a"].tolist() == [1, 2]
    assert batch[2]["inner"]["b"].shape == (2,)
    copied = clone_tensordict(batch)
    copied[0] = {"a": 7, "inner": {"b": np.ones(2)}}
    assert copied["a"].tolist() == [7, 1, 2, 3] and copied["inner"]["b"][0].tolist() == [1, 1]
    assert batch["a"].tolist() == [0, 1, 2, 3]
    assert cat_tensordicts([batch, copied])["inner"]["b"].shape == (8, 2)
    assert isinstance(to_numpy(batch)["inner"]["b"], np.ndarray)


def test_ends_of_episodes_in_each_form():
    assert make_dones([True, False], [False, False]) == [True, False]
    assert make_dones(np.array([True]), np.array([False])).tolist() == [True]
    assert make_dones(False, True) is True
    assert samples_per_trajectory({"rewards": torch.zeros(3, 5)}) == 15


def test_dictionaries_inside_out():
    assert list_of_dicts_to_dict_of_lists([{"a": 1}, {"a": 2, "b": 3}]) == {"a": [1, 2], "b": [3]}
    nested = [{"a": 1, "b": {"c": 2}}, {"a": 3, "b": {"c": 4}}]
    assert list_of_dicts_to_dict_of_lists(nested) == {"a": [1, 3], "b": {"c": [2, 4]}}
    assert list_of_dicts_to_dict_of_lists([]) == {}
    empty = copy_dict_structure(nested[0])
    assert empty == {"a": None, "b": {"c": None}}
    for one, other, key, value, _ in iter_dicts_recursively(nested[0], empty):
        other[key] = value + one[key]
    assert empty == {"a": 2, "b": {"c": 4}}
    assert [prefix for *_, prefix in iterate_recursively_with_prefix(nested[0])] == [[], ["b"]]
    assert (get_first_present({"b": 2}, ["a", "b"]), get_first_present({}, ["a"], 7)) == (2, 7)
    assert [(key, value) for _, key, value in iterate_recursively({"a": {"b": 1}, "c": 2})] == [("b", 1), ("c", 2)]


def test_truth():
    assert (str2bool("True"), str2bool("false"), str2bool(True)) == (True, False, True)
    with pytest.raises(Exception, match="'yes' is not True or False"):
        str2bool("yes")


@pytest.mark.parametrize("decorate", [retry(2, ValueError), retry_of_environments(ValueError, 3, 0)])
def test_what_fails_is_tried_again(decorate, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    tries = []

    @decorate
    def fragile(num_failures):
        tries.append(1)
        if len(tries) <= num_failures:
            raise ValueError
        return "done"

    assert fragile(2) == "done"
    tries.clear()
    with pytest.raises(ValueError):
        fragile(3)


def test_whoever_is_told_of_training_is_found_through_wrappers():
    class Env(TrainingInfoInterface):
        pass

    class Wrapper:
        def __init__(self, env):
            self.env = env

    env = Env()
    assert find_training_info_interface(Wrapper(Wrapper(env))) is env
    assert find_training_info_interface(Wrapper(object())) is None
    assert num_env_steps([{"num_frames": 4}, {}]) == 5


def test_helpers_around_pytorch():
    rows = torch.arange(6).view(2, 3)
    assert masked_select(rows, rows > 3, 4).tolist() == [4, 5]
    assert masked_select(rows, rows >= 0, 0) is rows
    assert to_torch_dtype(np.uint8) is torch.uint8
    with inference_context(is_serial=False):
        assert torch.is_inference(torch.zeros(1))
    with inference_context(is_serial=True):
        assert not torch.is_inference(torch.zeros(1)) and not torch.is_grad_enabled()
