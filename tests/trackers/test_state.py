"""How far a tracker was told of a run is found again, and what is no such thing is refused."""

from __future__ import annotations

import pytest

from sample_profiler.trackers.state import TrackingState


def test_what_was_saved_is_found_again(tmp_path):
    path = tmp_path / "state"
    assert TrackingState.load(path) == TrackingState()
    state = TrackingState("a_1", 7, {"0/events": 1234})
    state.save(path)
    assert TrackingState.load(path) == state


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"run_id": "a", "num_points": 0, "positions": [1]}'])
def test_what_is_no_state_is_refused(tmp_path, text):
    path = tmp_path / "state"
    path.write_text(text)
    with pytest.raises(ValueError):
        TrackingState.load(path)
