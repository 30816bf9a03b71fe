"""Published weights: whole or not at all, for readers in other processes that never wait."""

from __future__ import annotations

import multiprocessing
import sys
from types import ModuleType

import pytest
import torch
from weights_writer import make_state, publish_versions

from sample_profiler.storage.policy_weights import PolicyWeights


def is_whole(state, version) -> bool:
    expected = make_state(version)
    return all(torch.equal(state[name], expected[name]) for name in expected)


def test_nothing_published_is_version_minus_one_and_leaves_a_network_alone():
    weights, state = PolicyWeights(), make_state(5)
    assert weights.version == -1
    assert weights.load_into(state) == -1
    assert is_whole(state, 5)
    weights.publish(make_state(0), 0)  # a reader that came too early has broken nothing
    assert weights.load_into(state) == 0


def test_what_was_published_last_is_what_is_loaded():
    weights, state = PolicyWeights(), make_state(0)
    for version in (0, 1, 2, 17, 3):
        weights.publish(make_state(version), version)
        assert weights.version == version
        assert weights.load_into(state) == version
        assert is_whole(state, version)
        assert weights.load_into(state) == version, "loading twice gives the same"


def test_tensors_of_all_shapes_and_types_survive():
    state = {
        "scalar": torch.tensor(3.5, dtype=torch.float64),
        "count": torch.tensor(2**40),
        "flags": torch.tensor([True, False, True]),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "needs_grad": torch.ones(5, requires_grad=True),
        "empty": torch.ones(0, 3),
    }
    weights = PolicyWeights()
    weights.publish(state, 1)
    loaded = {name: torch.zeros_like(tensor, requires_grad=False) for name, tensor in state.items()}
    weights.load_into(loaded)
    for name, tensor in state.items():
        assert torch.equal(loaded[name], tensor), name


def test_a_published_network_does_not_change_with_the_learners_own():
    weights, state = PolicyWeights(), make_state(1)
    weights.publish(state, 1)
    state["a"].zero_()
    loaded = make_state(0)
    weights.load_into(loaded)
    assert is_whole(loaded, 1)


@pytest.mark.parametrize("num_publications", [1, 2, 3])
def test_a_reader_that_is_overtaken_reads_again(monkeypatch, num_publications):
    """The writer publishes in the middle of a load: once is harmless, the second time overwrites what is read."""
    weights, state = PolicyWeights(), make_state(0)
    weights.publish(make_state(1), 1)
    make_copy, calls = weights._copy, []

    def publish_meanwhile(copy, num_bytes):
        whole = make_copy(copy, num_bytes)
        if not calls:
            calls.append(None)
            for version in range(2, 2 + num_publications):
                monkeypatch.setattr(weights, "_copy", make_copy)
                weights.publish(make_state(version), version)
        return whole

    monkeypatch.setattr(weights, "_copy", publish_meanwhile)
    version = weights.load_into(state)
    assert is_whole(state, version)
    assert version == (1 if num_publications == 1 else num_publications + 1)


def test_a_writer_that_died_in_the_middle_leaves_the_weights_before():
    weights, state = PolicyWeights(), make_state(0)
    weights.publish(make_state(1), 1)
    with pytest.raises(InterruptedError):
        weights.publish(make_state(2) | {"b": DyingTensor()}, 2)  # when "a" has been copied already
    assert weights.version == 1
    assert weights.load_into(state) == 1
    assert is_whole(state, 1)


class DyingTensor:
    """Looks like one of the tensors, but cannot be copied."""

    def __getattr__(self, name):
        return getattr(make_state(0)["b"], name)

    def detach(self):
        raise InterruptedError


def test_a_reader_never_sees_torn_weights_of_a_writer_in_another_process(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    weights, last_version = PolicyWeights(), 3000
    process = multiprocessing.get_context("spawn").Process(target=publish_versions, args=(weights, last_version))
    process.start()
    try:
        state, seen = make_state(0), []
        while not seen or seen[-1] < last_version:
            assert process.is_alive() or weights.version == last_version
            if weights.version < 0:
                continue
            version = weights.load_into(state)
            assert is_whole(state, version), f"torn at version {version}"
            assert not seen or version >= seen[-1], "weights go back in time"
            seen.append(version)
    finally:
        process.join(30)
        process.kill()
    assert len(set(seen)) > 5, "the reader saw too few publications to show anything"
