"""A game that dies while its player waits for it ends the player's process; one that was seen to end does not."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
import stuck_player

from sample_profiler.runtime.loop.event_loop import PipeWaiter
from sample_profiler.runtime.processes.child import ChildSettings, SharedMemoryNames
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.runtime.processes.orphans import mapped_shared_memory
from sample_profiler.runtime.processes.supervisor import Supervisor
from sf_examples.vizdoom import game_watch
from tests.isolation.shared_names import make_shared_name

pytestmark = pytest.mark.whole_run


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


class Player:
    """Whoever plays a game."""


@pytest.fixture
def quick_watch(monkeypatch):
    """What a watch with little patience has ended its process for, instead of doing it."""
    messages: set[str] = set()
    monkeypatch.setattr(game_watch, "end_player", messages.add)
    monkeypatch.setattr(game_watch, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(game_watch, "_STOP_LOOK_INTERVAL_S", 0.05)
    return messages


@pytest.mark.parametrize(
    ("is_stopped", "is_waited_for", "goes_on"),
    [(True, True, False), (True, True, True), (True, False, False), (False, True, False)],
)
def test_a_game_that_is_stopped_for_too_long_counts_as_dead(is_stopped, is_waited_for, goes_on, quick_watch):
    player = Player()
    with subprocess.Popen(["sleep", "5"]) as game:
        watch = game_watch.GameWatch(game.pid, "environment 5 (doom)", player, hang_timeout_s=0.3)
        if is_stopped:
            game.send_signal(signal.SIGSTOP)
        with watch if is_waited_for else contextlib.nullcontext():
            for _ in range(10):
                time.sleep(0.1)
                if goes_on:
                    game.send_signal(signal.SIGCONT)
        game.kill()
    watch.end()
    is_ended = is_stopped and is_waited_for and not goes_on
    message = (
        f"EnvError: environment 5 (doom): its game (process {game.pid}) has been stopped by a signal for 0.3 s "
        "(--hang_timeout), and counts as dead"
    )
    assert quick_watch == ({message} if is_ended else set())


def test_a_stuck_process_ends_with_the_shared_memory_of_its_games_and_leaves_that_of_others():
    names = [make_shared_name(kind) for kind in ("ViZDoomSM", "others")]
    try:
        script = Path(__file__).with_name("stuck_player.py")
        ended = subprocess.run([sys.executable, str(script), *names], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1, ended.stderr
        assert "its game is stuck" in ended.stderr
        assert [os.path.exists(name) for name in names] == [False, True]
    finally:
        for name in names:
            Path(name).unlink(missing_ok=True)


def test_memory_of_a_game_that_has_just_begun_is_removed_with_its_killed_player(supervisor: Supervisor) -> None:
    """Both are gone before anybody has looked what they map: the player has told of it."""
    child = supervisor.spawn(ChildSettings("Player"), stuck_player.make_doom_starter)
    deadline_s = time.monotonic() + 60
    reports: list[object] = []
    while "playing" not in reports and time.monotonic() < deadline_s:
        reports += child.reports.receive()
        time.sleep(0.01)
    processes = [child.pid, *(process.pid for process in psutil.Process(child.pid).children(recursive=True))]
    names = {name for name in mapped_shared_memory(processes) if "ViZDoom" in name}
    assert names
    os.kill(child.pid, signal.SIGKILL)
    assert PipeWaiter([child.exit]).wait(30) == [child.exit]
    for report in reports:
        if isinstance(report, SharedMemoryNames):  # as a Runner does
            supervisor.note_shared_memory(report)
    supervisor.bury(child)
    assert not any(map(os.path.exists, names))


def test_children_are_those_of_this_process() -> None:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    try:
        assert pid in game_watch.children_of_this_process()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
