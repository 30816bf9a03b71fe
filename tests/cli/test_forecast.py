"""The command `forecast`: what it is told, and of which runs it can say something."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from sample_profiler.cli import forecast as command
from sample_profiler.cli.forecast import as_network, as_sizes, read_pipeline
from sample_profiler.cli.main import main
from sample_profiler.errors import SessionError, UsageError
from sample_profiler.profiling.session.session import Session
from sample_profiler.run_folder import RunFolder
from tests.analysis.test_forecast import SAMPLING


@pytest.mark.parametrize(
    ("text", "bytes_per_s", "latency_s"),
    [("10Gbit,0.2ms", 1.25e9, 2e-4), ("100 Mbit/s, 50us", 1.25e7, 5e-5), ("1.5tbit,1s", 1.875e11, 1.0)],
)
def test_a_network_is_bandwidth_and_latency_with_their_units(text: str, bytes_per_s: float, latency_s: float) -> None:
    network = as_network(text)
    assert (network.bytes_per_s, network.latency_s) == pytest.approx((bytes_per_s, latency_s))


@pytest.mark.parametrize(
    "text", ["", "10Gbit", "10,0.2", "0Gbit,1ms", "10GB,1ms", "1ms,10Gbit", "-1Gbit,1ms", "1Gbit,1ms,2"]
)
def test_any_other_network_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"such as 10Gbit,0\.2ms"):
        as_network(text)


def test_sizes_are_numbers_in_order() -> None:
    assert as_sizes("8, 1,2,2") == [1, 2, 8]
    for text in ("", "0", "1,x", "-2", "2000", "1.5"):
        with pytest.raises(argparse.ArgumentTypeError, match="such as 1,2,4,8"):
            as_sizes(text)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "read_pipeline", lambda run_dir: SAMPLING)


@pytest.mark.usefixtures("recorded")
def test_all_that_was_asked_for_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "run", "--nodes=1,4", "--cores=2,8"]) == 0
    output = capsys.readouterr().out
    assert "makes a dataset of 1,000 frames in 2.0 s" in output
    assert [line.split()[0] for line in output.splitlines() if line and line.split()[0].isdecimal()] == [
        *("1", "4", "1", "4", "2", "8"),
    ]
    assert main(["forecast", "run", "--cores=2"]) == 0
    assert "Ranks" not in capsys.readouterr().out


@pytest.mark.usefixtures("recorded")
def test_it_can_be_had_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "run", "--nodes=2", "--kind=ranks", "--json", "--network=1Gbit,1ms"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pipeline"]["make_s"] == 2.0
    assert [each["size"] for each in told["ranks"]] == [2]
    assert set(told) == {"pipeline", "ranks"}


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({}, "does not tell how large its messages are"),
        ({"dataset_bytes": 0, "weights_bytes": 0}, "has trained on nothing"),
        ({"dataset_bytes": 9, "weights_bytes": 9, "num_ranks": 2}, "is one of several ranks"),
        ({"dataset_bytes": 9, "weights_bytes": 9}, "has no steady part"),
    ],
)
def test_a_run_that_says_too_little_is_refused_with_its_cure(
    tmp_path: Path, facts: dict[str, int], problem: str
) -> None:
    folder = RunFolder(tmp_path)
    folder.profile.mkdir()
    Session(created_s=0.0, run=facts).save(folder.session)
    with pytest.raises((UsageError, SessionError), match=problem):
        read_pipeline(tmp_path)
