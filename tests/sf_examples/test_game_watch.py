"""A game that dies while its player waits for it ends the player's process; one that was seen to end does not."""

from __future__ import annotations

import ctypes
import os
import time
from functools import partial

import pytest
import stuck_player

from sample_profiler.runtime.child import ChildSettings, Failure
from sample_profiler.runtime.event_loop import PipeWaiter
from sample_profiler.runtime.supervisor import Supervisor
from sf_examples.vizdoom import game_watch


@pytest.fixture
def supervisor():
    supervisor = Supervisor()
    yield supervisor
    supervisor.kill()
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: other tests' orphans are not ours


def test_player_stuck_after_the_death_of_its_game_is_ended_and_told(supervisor: Supervisor) -> None:
    child = supervisor.spawn(ChildSettings("Player"), partial(stuck_player.make_player, False))
    assert PipeWaiter([child.exit]).wait(30) == [child.exit]
    (failure,) = [report for report in child.reports.receive() if isinstance(report, Failure)]
    assert failure.component == "Player"
    assert "environment 5 (doom): its game" in failure.message
    assert "stuck_player.py" in failure.traceback_text  # where it is stuck


def test_player_that_has_noticed_goes_on(supervisor: Supervisor) -> None:
    child = supervisor.spawn(ChildSettings("Player"), partial(stuck_player.make_player, True))
    deadline_s = time.monotonic() + 30
    reports: list[object] = []
    while "noticed" not in reports and time.monotonic() < deadline_s:
        reports += child.reports.receive()
        time.sleep(0.05)
    assert "noticed" in reports
    assert PipeWaiter([child.exit]).wait(game_watch._PATIENCE_S + 0.5) == []


def test_children_are_those_of_this_process() -> None:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    try:
        assert pid in game_watch.children_of_this_process()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
