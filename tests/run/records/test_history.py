"""Figures over the time of a run: as many of a long one as of a short one."""

from __future__ import annotations

import json
from itertools import pairwise

from sample_profiler.run.records import history as module
from sample_profiler.run.records.history import History, evaluated, to_json


def test_points_are_by_figure_and_figures_may_come_late():
    history = History()
    history.add(1.04, {"fps": 10.0})
    history.add(2.0, {"fps": 1234567.8, "episode_return_policy_0": -0.000123456789})
    assert history.points() == {
        "fps": [(1.0, 10.0), (2.0, 1234570.0)],
        "episode_return_policy_0": [(2.0, -0.000123457)],
    }
    assert (history.latest("fps"), history.latest("nothing")) == (1234570.0, None)


def test_points_of_a_long_run_are_evenly_apart_and_the_latest_is_among_them(monkeypatch):
    monkeypatch.setattr(module, "_MOST_POINTS", 8)
    history = History()
    for second in range(1000):
        history.add(float(second), {"fps": 2.0 * second})
        points = history.points()["fps"]
        assert points[0] == (0.0, 0.0) and points[-1] == (float(second), 2.0 * second)
        assert len(points) <= 8 and (second < 8 or len(points) > 4)
        *gaps, last = [after - before for (before, _), (after, _) in pairwise(points)] or [0.0]
        assert len(set(gaps)) <= 1 and all(last <= gap for gap in gaps)


def test_columns_become_json_one_at_a_time():
    history, asked = History(), []
    history.add(1.0, {"fps": 10.0, 'of "quotes"': 2.5})
    late = {"a": lambda: asked.append("a") or [1, None], "b": {"c": lambda: asked.append("c") or 0.5, "none": {}}}
    columns = {"history": history.columns(), **late}
    pieces = to_json(columns)
    text = ""
    while '"a"' not in text:
        text += next(pieces)
    assert asked == [], "what nobody has asked for yet takes no memory"
    document = json.loads(text + "".join(pieces))
    assert asked == ["a", "c"]
    assert document == {
        "history": {"fps": [[1.0, 10.0]], 'of "quotes"': [[1.0, 2.5]]},
        "a": [1, None],
        "b": {"c": 0.5, "none": {}},
    }
    assert evaluated(columns)["history"] == history.points()
    assert "".join(to_json({})) == "{}"
