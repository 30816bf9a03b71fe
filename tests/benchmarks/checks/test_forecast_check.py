"""What forecasts are held against, and when one is off, with runs that are made up."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from benchmarks.checks import forecast_check
from benchmarks.checks.forecast_check import main
from sample_profiler.analysis.forecast import Network, forecast
from tests.analysis.test_forecast import SAMPLING

LOOPBACK = Network(5e9, 0.0001)


@pytest.fixture
def seen(monkeypatch):
    """Have runs reach what is forecast of them, times a factor for each number of nodes; return these factors."""
    factors = {}

    def train(kind, num_nodes, folder):
        (expected,) = forecast(SAMPLING, kind, [num_nodes], LOOPBACK)
        return expected.fps * factors.get((kind, num_nodes), 1.0)

    monkeypatch.setattr(forecast_check, "train", train)
    monkeypatch.setattr(forecast_check, "read_pipeline", lambda _: SAMPLING)
    monkeypatch.setattr(forecast_check, "read_session", lambda fps, **_: SimpleNamespace(run={"steady_fps": fps}))
    return factors


@pytest.mark.parametrize(("factor", "status"), [(1.08, 0), (0.93, 0), (1.13, 1), (0.88, 1)])
def test_a_forecast_that_is_off_by_more_than_a_tenth_fails(seen, tmp_path, capsys, factor, status):
    seen["actors", 4] = factor
    path = tmp_path / "runs.jsonl"
    assert main([f"--output={path}"]) == status
    output = capsys.readouterr().out
    assert ("1 forecasts are off by more than 10%" in output) == bool(status)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["kind"], line["nodes"]) for line in lines] == [
        (kind, nodes) for kind in ("ranks", "actors") for nodes in (1, 2, 4)
    ]
    assert lines[-1]["off_by"] == pytest.approx(1 / factor - 1, abs=1e-3) and lines[0]["off_by"] == 0.0
    assert all(line["commit"] and line["interval"][0] < line["expected_fps"] for line in lines)


def test_ranks_find_each_other_as_if_each_had_a_machine(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert forecast_check._places(1) == [{}]
    first, second = forecast_check._places(2)
    assert (first.pop("RANK"), second.pop("RANK")) == ("0", "1")
    assert first == second and first["WORLD_SIZE"] == "2" and "LOCAL_WORLD_SIZE" not in first
