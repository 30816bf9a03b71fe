"""How vectors tell of the ends of episodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sample_profiler.envs.vectors.autoreset import check_infos, with_named_finals
from sample_profiler.envs.vectors.tensor_step import TensorStep
from sample_profiler.errors import EnvContractError

BOX = spaces.Box(-1, 1, (1,), np.float32)


def test_a_tuple_is_a_batch_only_where_observations_are_tuples():
    batch = (np.zeros((2, 1)), {"b": np.ones((2, 1))})
    named = with_named_finals({"final_obs": batch}, spaces.Tuple([BOX, spaces.Dict(b=BOX)]))["final_obs"]
    assert list(named) == ["0", "1"] and named["0"] is batch[0]
    by_member = {"final_obs": (None, {"a": {"b": np.ones(1)}})}
    assert with_named_finals(by_member, spaces.Dict(a=spaces.Dict(b=BOX))) is by_member


@pytest.mark.parametrize("infos", [None, "infos", np.array(None), [{}], np.array([{}], dtype=object)])
def test_infos_that_are_not_of_all_members_are_named(infos):
    with pytest.raises(EnvContractError, match="one dictionary for each of 2 members"):
        check_infos(infos, 2, "vector")


def test_of_infos_for_each_member_the_first_key_that_says_something_counts():
    infos = [{"final_obs": None}, {"final_obs": torch.ones(1), "final_observation": torch.zeros(1)}, None]
    ended = torch.tensor([False, True, False])
    step = TensorStep(torch.zeros(3, 1), torch.zeros(3), ended, ended, infos, AutoresetMode.SAME_STEP)
    finals, are_told = step.final_observations()
    assert finals.tolist() == [[0.0], [1.0], [0.0]] and are_told.tolist() == [False, True, False]
