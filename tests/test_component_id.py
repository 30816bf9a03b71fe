"""Names of components, there and back."""

from __future__ import annotations

import pytest

from sample_profiler.component_id import BATCHER, INFERENCE_WORKER, ROLLOUT_WORKER, ComponentId, rollout_worker_index

NAMES = {
    "RolloutWorker_w12": ComponentId(ROLLOUT_WORKER, index=12),
    "InferenceWorker_p1-w0": ComponentId(INFERENCE_WORKER, 1, 0),
    "Batcher_3": ComponentId(BATCHER, 3),
    "Runner": ComponentId("Runner"),
}


@pytest.mark.parametrize(("name", "component"), NAMES.items())
def test_a_name_says_which_component_it_is_and_back(name, component):
    assert ComponentId.parse(name) == component
    assert str(component) == name


@pytest.mark.parametrize(
    "name",
    ["", "my_thing", "RolloutWorker_w", "RolloutWorker_w1 (all)", "Batcher_p1", "w_" + "9" * 5000, "Ñ_w1", "A_p1-2"],
)
def test_any_other_name_is_itself(name):
    assert ComponentId.parse(name) == ComponentId(name)
    assert str(ComponentId.parse(name)) == name


def test_a_rollout_worker_is_known_by_its_number():
    assert [rollout_worker_index(name) for name in NAMES] == [12, None, None, None]
    assert rollout_worker_index("RolloutWorker") is None
