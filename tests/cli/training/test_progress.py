"""What a run shows while it goes on."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace

import pytest
from rich.console import Console

from sample_profiler.cli.training import progress
from sample_profiler.cli.training.progress import LogProgress, TerminalProgress, describe_status, make_progress


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=200)


@pytest.fixture
def bar(terminal):
    bar = TerminalProgress(terminal, target_frames=24_000, target_s=100.0)
    yield bar
    bar.on_stop(None)


def test_a_line_has_throughput_frames_rewards_and_lag_of_all_policies(make_status):
    assert describe_status(make_status()) == (
        "FPS 1,234 / 1,000 / 999 (10/60/300 s)  frames 12,000 3,000  reward 1.250 -  lag 1.2/4 0.0/0"
    )


def test_before_the_first_episode_there_is_no_reward(make_status):
    assert "reward" not in describe_status(make_status(episodes={0: {}, 1: {}}))


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines(terminal):
    shown = make_progress(terminal, 10, 10.0)
    assert isinstance(shown, TerminalProgress)
    shown.on_stop(None)
    assert isinstance(make_progress(Console(file=io.StringIO()), 10, 10.0), LogProgress)


def test_lines_come_every_ten_seconds_and_at_the_end(make_status, clock, caplog):
    caplog.set_level(logging.INFO)
    lines = LogProgress()
    for seconds in (1, 9, 10, 11, 19, 20, 21):
        clock[0] = 1000.0 + seconds
        lines.on_status(make_status(elapsed_s=float(seconds)))
    assert len(caplog.records) == 2
    lines.on_stop(None)
    assert len(caplog.records) == 3
    assert caplog.records[-1].getMessage() == describe_status(make_status())


def test_a_run_that_ends_before_its_first_status_has_no_last_line(caplog):
    caplog.set_level(logging.INFO)
    LogProgress().on_stop(None)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("frames", "elapsed_s", "share"),
    [
        ({0: 12_000, 1: 3_000}, 1.0, 0.125),  # the policy with the fewest frames counts
        ({0: 0, 1: 0}, 75.0, 0.75),
        ({0: 24_000, 1: 24_000}, 1.0, 1.0),
        ({0: 10**9, 1: 10**9}, 10**6, 1.0),
    ],
)
def test_the_bar_shows_the_nearer_of_the_two_ends(bar, make_status, frames, elapsed_s, share):
    bar.on_status(make_status(frames=frames, elapsed_s=elapsed_s))
    assert bar._progress.tasks[0].completed == pytest.approx(share)
    assert "FPS 1,234" in bar._progress.tasks[0].description


def test_the_bar_leaves_its_last_words_in_the_log(terminal, make_status, caplog):
    caplog.set_level(logging.INFO)
    bar = TerminalProgress(terminal, 10, 10.0)
    bar.on_status(make_status())
    bar.on_stop(None)
    assert caplog.records[-1].getMessage() == describe_status(make_status())
