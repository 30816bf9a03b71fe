"""A vector whose members step as tensors where it lives: memory is what it is on the host, and nobody waits."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from torch.utils._python_dispatch import TorchDispatchMode

from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.components.rollout_worker.tensor_group import TensorGroup
from sample_profiler.components.rollout_worker.vector_group import VectorGroup
from sample_profiler.errors import EnvContractError
from tests.components.rollout_worker.vector_drivers import ACTION_SPACES, Driver, TensorDriver, received_actions
from tests.doubles.counting_vectors import BrokenVector, CountingVector, NumberFlags, VectorOnDevice

MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]
WRITTEN_ONCE = ("rewards", "terminated", "truncated", "inactive", "spoiled", "states", "starts_episode")


class WaitsForNothing(TorchDispatchMode):
    """Fails wherever the host would wait for what a device computes."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        assert "_local_scalar_dense" not in name
        assert "nonzero" not in name
        if name.startswith(("aten::index.", "aten::index_put")):
            indices = args[1]
            assert not any(index is not None and index.dtype == torch.bool for index in indices), name
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def nobody_waits():
    def refuse(*_, **__):
        raise AssertionError("the host waits for a device")

    with pytest.MonkeyPatch.context() as patch, WaitsForNothing():
        for method in ("cpu", "numpy", "tolist", "item", "__array__"):
            patch.setattr(torch.Tensor, method, refuse)
        yield


def assert_equal_memory(tensors, arrays):
    where = {name: getattr(arrays, name) for name in WRITTEN_ONCE} | arrays.observations
    for name, expected in where.items():
        found = tensors.observations[name] if name in arrays.observations else getattr(tensors, name)
        assert found.dtype == torch.from_numpy(expected).dtype, name
        np.testing.assert_array_equal(found.numpy(), expected, err_msg=name)


class WideRewards(CountingVector):
    """Its first member has a reward in its second step that float32 has no room for."""

    def _returned(self, *keys):
        if "rewards" in keys:
            self.memory["rewards"] = self.memory["rewards"].astype(np.float64)
            self.memory["rewards"][0] = -1e300 if self.num_steps == 2 else self.memory["rewards"][0]
        return super()._returned(*keys)


@pytest.mark.parametrize("bad_at", [(), (3, 6, 10)], ids=["good", "bad"])
@pytest.mark.parametrize("tells_final", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("speaks", ["torch", "DLPack"])
def test_the_memory_is_the_same_as_on_the_host(speaks, mode, tells_final, bad_at):
    options = {"mode": mode, "tells_final": tells_final, "bad_at": bad_at}
    host = Driver(CountingVector(**options), SteppingGroup)
    there = TensorDriver(CountingVector(speaks=speaks, **options))
    assert type(there.group) is TensorGroup
    for _ in range(7):
        host.do_rollouts(1), there.do_rollouts(1)
        expected = host.told()
        expected[2]["spoiled_rows"] = sorted(set(expected[2]["spoiled_rows"]))
        assert there.told() == expected
        assert_equal_memory(there.memory, host.memory)
    assert len(there.group.episodes) > 20


def test_a_reward_beyond_float32_is_left_out_on_a_device_as_it_is_on_the_host():
    host, there = Driver(WideRewards(), SteppingGroup), TensorDriver(WideRewards(speaks="torch"))
    host.do_rollouts(1), there.do_rollouts(1)
    assert_equal_memory(there.memory, host.memory)
    assert there.memory.spoiled[0].tolist() == [False, True, False, False]
    assert torch.isfinite(there.memory.rewards).all()


def test_what_episodes_led_to_that_were_cut_off_is_kept():
    driver = TensorDriver(CountingVector((9, 2), AutoresetMode.SAME_STEP, "torch"))
    driver.group.begin_rollout(np.array([0, 1], np.int32))
    driver.step(), driver.step()
    memory = driver.memory
    assert memory.truncated[1].tolist() == [False, True, False, False]
    assert memory.final_observations["place"][1, 1].tolist() == [1, 1, 2]
    assert memory.observations["place"][1, 2].tolist() == [1, 2, 0]
    assert memory.final_states[1, 1].any()
    assert not memory.states[1, 2].any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("slots", [[0, 1, 2, 3, 4], [9, 3, 5, 4, 1]], ids=["neighbours", "scattered"])
def test_nobody_waits_in_a_hundred_steps(monkeypatch, mode, slots):
    """Only the vector of this test looks at its own numbers, outside of what is watched."""
    vector = CountingVector(mode=mode, speaks="torch", bad_at=(30,))
    driver = TensorDriver(vector, rollout=120)
    driver.group.begin_rollout(np.array(slots, np.int32))
    driver.step()  # the first one is looked at on the host
    take_step, watch = vector.step, contextlib.ExitStack()

    def step(actions):
        watch.close()
        returned = take_step(actions.detach())
        watch.enter_context(nobody_waits())
        return returned

    monkeypatch.setattr(vector, "step", step)
    group = driver.group
    for _ in range(100):
        watch.enter_context(nobody_waits())
        group.step()
        watch.close()
    assert driver.memory.terminated.sum() > 20
    assert not group.episodes
    monkeypatch.setattr(vector, "step", take_step)
    while group.step_index < 120:
        group.step()
    assert len(group.episodes) > 30


def test_who_waits_is_seen():
    tensor = torch.ones(3)
    for wait in (
        lambda: float(tensor[0]),
        lambda: tensor[tensor > 0],
        lambda: tensor.nonzero(),
        lambda: tensor.tolist(),
    ):
        with pytest.raises(AssertionError), nobody_waits():
            wait()


@pytest.mark.parametrize("speaks", ["torch", "DLPack"])
def test_nothing_is_copied_at_the_border(speaks):
    vector = CountingVector(speaks=speaks)
    env = TensorDriver(vector).env
    env.find_device()
    step = env.step_tensors(torch.full((5, 2), 3.0))
    final, _ = step.final_observations()
    found = {**env.as_tensors(step.observations), "rewards": step.rewards, "terminated": step.terminated}
    found |= {"truncated": step.truncated, "final_place": env.as_tensors(final)["place"]}
    for key, tensor in found.items():
        assert tensor.data_ptr() == vector.memory[key].__array_interface__["data"][0], key
    (action,) = vector.actions
    assert isinstance(action, torch.Tensor if speaks == "torch" else np.ndarray)
    assert (action == 1).all()


def test_actions_are_the_tensor_that_was_clipped():
    vector = CountingVector(speaks="torch")
    driver = TensorDriver(vector)
    driver.group.begin_rollout(np.arange(5, dtype=np.int32))
    clipped, convert = [], driver.env._env._from_tensor
    driver.env._env._from_tensor = lambda actions: clipped.append(convert(actions)) or clipped[-1]
    driver.step()
    (action,) = vector.actions
    assert action.data_ptr() == clipped[0].data_ptr()
    assert action.is_contiguous()


@pytest.mark.parametrize(
    "vector",
    [CountingVector(speaks="torch", mode=AutoresetMode.DISABLED), CountingVector()],
    ids=["asked to begin anew", "numpy"],
)
def test_others_stay_on_the_host(vector):
    seeds, reset = [], vector.reset
    vector.reset = lambda **keywords: seeds.append(keywords) or reset(**keywords)

    driver = TensorDriver(vector)
    assert type(driver.group) is VectorGroup
    assert driver.memory.device is None
    assert [each for each in seeds if "options" not in each] == [{"seed": 1}], "it begins once"


def test_a_group_goes_on_from_its_course():
    driver = TensorDriver(CountingVector(mode=AutoresetMode.NEXT_STEP, speaks="torch")).do_rollouts(2)
    course, memory = driver.group.course(), driver.memory.memory
    driver.do_rollouts(1)
    again = TensorDriver(CountingVector(mode=AutoresetMode.NEXT_STEP, speaks="torch")).do_rollouts(2)
    again.memory.put_back(memory)
    again.group.follow(course)
    again.do_rollouts(1)
    assert again.told() == driver.told()
    assert (again.memory.memory == driver.memory.memory).all()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"place": torch.zeros(5, 2)}, r"returned observation 'place' of shape \(2,\)"),
        ({"rewards": torch.zeros(1)}, "returned reward .* one entry for each of 5 agents"),
        ({"odd": torch.full((5,), 2)}, "returned observation 'odd' .*(0 to 1|out of its space)"),
    ],
)
@pytest.mark.parametrize("at", [1, 9])
def test_what_is_not_of_the_contract_is_named_early_and_late(change, problem, at):
    driver = TensorDriver(BrokenVector(change, at, speaks="torch"))
    with pytest.raises(EnvContractError, match=problem):
        driver.do_rollouts(3)


def test_flags_may_be_numbers():
    plain, numbers = (TensorDriver(kind(speaks="torch")).do_rollouts(3) for kind in (CountingVector, NumberFlags))
    assert (plain.memory.memory == numbers.memory.memory).all()


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_actions_are_what_arrays_would_be(space):
    seen = (received_actions(space, make, "torch") for make in (Driver, TensorDriver))
    for expected, found in zip(*seen, strict=True):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


def test_infos_may_be_lists():
    """Who is inactive, and what episodes led to, may be told member by member."""

    class Listed(CountingVector):
        def step(self, actions):
            *outcome, infos = super().step(actions)
            final = infos["final_obs"]
            ended = (outcome[2] | outcome[3]).tolist()
            told = [{key: values[member] for key, values in final.items()} for member in range(5)]
            return *outcome, [
                {"is_active": bool(self.num_steps % 3), **({"final_obs": told[m]} if ended[m] and m % 4 else {})}
                for m in range(5)
            ]

    host = Driver(Listed(speaks="torch"), SteppingGroup).do_rollouts(5)
    there = TensorDriver(Listed(speaks="torch")).do_rollouts(5)
    assert there.told() == host.told()
    assert_equal_memory(there.memory, host.memory)
    assert host.memory.inactive.any()


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no device")
@pytest.mark.parametrize("mode", MODES)
def test_on_a_device_it_is_the_same_and_nobody_waits(monkeypatch, mode):
    class OnDevice(VectorOnDevice):
        def step(self, actions):
            torch.cuda.set_sync_debug_mode("default")
            returned = super().step(actions)
            if self.num_steps > 1:  # the first one is looked at on the host
                torch.cuda.set_sync_debug_mode("error")  # for what the group does with it
            return returned

    host, there = Driver(CountingVector(mode=mode), SteppingGroup), TensorDriver(OnDevice(mode=mode))
    assert there.memory.device.type == "cuda"
    tell = there.group._tell
    monkeypatch.setattr(there.group, "_tell", lambda: (torch.cuda.set_sync_debug_mode("default"), tell()))
    step = there.group.step
    monkeypatch.setattr(there.group, "step", lambda: (step(), torch.cuda.set_sync_debug_mode("default")))
    try:
        host.do_rollouts(5), there.do_rollouts(5)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for name in WRITTEN_ONCE:
        np.testing.assert_array_equal(getattr(there.memory, name).cpu().numpy(), getattr(host.memory, name))
