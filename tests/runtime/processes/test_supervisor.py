"""The supervisor: nothing that a child is, starts or makes outlives the run; what belongs to others does."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from functools import partial
from pathlib import Path

import psutil
import pytest
import spawned_components as spawned
from spawned_components import has_ended

from sample_profiler.runtime.loop.event_loop import PipeWaiter
from sample_profiler.runtime.machine import memory_watch
from sample_profiler.runtime.machine.memory_limits import read_process_memory
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes import supervisor as supervisor_module
from sample_profiler.runtime.processes.child import ChildSettings, Finished, SharedMemoryNames
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.signals.ending_signals import ENDING_SIGNALS
from tests.isolation.shared_names import make_shared_name


def settings(name="Spawned"):
    return ChildSettings(name)


def is_started(report):
    return isinstance(report, Heartbeat)


@pytest.fixture
def names():
    """Names under /dev/shm that are free again in the end."""
    names = [make_shared_name() for _ in range(2)]
    yield names
    for name in names:
        Path(name).unlink(missing_ok=True)


def test_children_that_are_told_to_stop_finish_in_order(supervisor, await_report):
    children = [supervisor.spawn(settings(f"Child_{number}"), spawned.make_spawned) for number in range(3)]
    for child in children:
        await_report(child, is_started)
    received = []
    killed = supervisor.stop(30, lambda: received.extend(r for child in children for r in child.reports.receive()))
    assert killed == []
    assert [child.exit_code for child in children] == [0, 0, 0]
    assert [child.describe_exit() for child in children] == ["exited with status 0"] * 3
    assert sum(isinstance(report, Finished) for report in received) == 3


def test_signals_are_held_until_a_child_that_is_started_is_known(supervisor, monkeypatch):
    """A Ctrl+C that comes meanwhile raises when whoever ends the children knows of this one."""
    held = []

    class Watched(Child):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            held.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(supervisor_module, "Child", Watched)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs of a script's background
    try:
        with pytest.raises(KeyboardInterrupt):
            supervisor.spawn(settings(), spawned.make_spawned)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert held == [set(ENDING_SIGNALS)]
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert [child.name for child in supervisor.children] == ["Spawned"]


def test_children_that_are_killed_before_the_others_end_take_with_them_what_they_have_started(supervisor, await_report):
    calm = supervisor.spawn(settings("Calm"), spawned.make_spawned)
    hasty = supervisor.spawn(settings("Hasty"), partial(spawned.make_spawned, start=spawned.start_games))
    _, *games = await_report(hasty, lambda report: isinstance(report, list))
    await_report(calm, is_started)
    supervisor.kill_now([hasty])
    assert supervisor.stop(30, lambda: None) == []
    assert [child.exit_code for child in (calm, hasty)] == [0, -signal.SIGKILL]
    assert all(map(has_ended, games))


def test_a_child_that_dies_before_it_has_read_what_it_needs_is_no_wait(supervisor, wait_until):
    """No pipe takes so much at once, and nobody would ever read it."""
    made = partial(spawned.make_spawned, spawned.EndsWhoeverReads(), bytes(4 << 20))
    child = supervisor.spawn(settings(), made)
    wait_until(lambda: not child.is_alive())
    assert child.exit_code == spawned.EndsWhoeverReads.STATUS


def test_what_is_killed_stands_still_when_it_is_looked_at_for_the_last_time(
    supervisor, await_report, wait_until, monkeypatch
):
    """A worker that starts its game, and the game, make named memory at any moment."""
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=spawned.start_games))
    _, *games = await_report(child, lambda report: isinstance(report, list))
    looks, note = [], supervisor.note_belongings

    def are_stopped():
        return all(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in (child.pid, *games))

    def note_and_look(children):
        note(children)
        looks.append(1)
        if len(looks) == 2:
            wait_until(are_stopped)  # the signal is on its way, and it does nothing more in between

    with monkeypatch.context() as patches:
        patches.setattr(supervisor, "note_belongings", note_and_look)
        supervisor.kill_now([child])
    assert len(looks) == 2


def test_what_an_ended_child_had_at_most_is_known_although_nobody_has_looked(supervisor, await_report, wait_until):
    # What a process had before it became another program, which it has of the one that starts it, is not known apart.
    much = read_process_memory(os.getpid()).resident + (400 << 20)
    children = [
        supervisor.spawn(settings(), partial(spawned.make_spawned, start=partial(spawned.grow, num_bytes)))
        for num_bytes in (1 << 20, much)
    ]
    for child in children:
        await_report(child, lambda report: isinstance(report, int))
        assert child.most_memory_bytes == 0, "it runs"
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda child=child: not child.is_alive())
    small, large = (child.most_memory_bytes for child in children)
    assert small < much < large < much + (1 << 30)


def test_children_that_end_in_the_same_moment_are_found(supervisor, await_report, wait_until):
    children = [supervisor.spawn(settings(f"Child_{number}"), spawned.make_spawned) for number in range(3)]
    for child in children:
        await_report(child, is_started)
    first, second, living = children
    for child in (first, second):
        os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: not first.is_alive())
    assert supervisor.await_ends([first]) == [first, second]
    assert living.is_alive()


@pytest.mark.parametrize("is_killed_here", [True, False])
def test_who_is_killed_for_want_of_memory_is_told_from_who_is_killed(
    is_killed_here, supervisor, await_report, wait_until, monkeypatch
):
    counts = {Path("vmstat"): 3}
    monkeypatch.setattr(memory_watch, "count_kills", lambda _: dict(counts))
    child = supervisor.spawn(settings(), spawned.make_spawned)
    await_report(child, is_started)
    supervisor.beat()
    counts[Path("vmstat")] += 1  # of whomever
    if is_killed_here:
        child.kill()
    else:
        os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: not child.is_alive())
    lack = supervisor.explain_end(child)
    assert (lack is None) == is_killed_here
    if lack is not None:
        assert lack.by_kernel and lack.lost.name == "Spawned" and lack.lost.num_bytes > 1 << 20
        assert [use.name for use in lack.others] == ["the main process"]


def test_who_is_refused_memory_is_told_with_the_others_and_who_ended_in_order_lacked_nothing(supervisor, await_report):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    await_report(child, is_started)
    assert supervisor.explain_refusal(child, was_refused=False) is None
    lack = supervisor.explain_refusal(child, was_refused=True)
    assert not lack.by_kernel and lack.lost.num_bytes > 1 << 20
    supervisor.stop(30, lambda: None)
    assert supervisor.explain_end(child) is None


def test_a_child_that_is_still_starting_is_stopped_in_order_too(supervisor, reports_until_end):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    assert supervisor.stop(30, lambda: None) == []
    assert child.exit_code == 0
    assert "finish was called" in reports_until_end(child)


def test_what_a_child_says_while_it_is_being_stopped_cannot_block_it(supervisor, await_report):
    """It reports more than the pipe holds; whoever waits for it has to read."""
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, finish=spawned.send_a_large_report))
    await_report(child, is_started)
    received = []
    assert supervisor.stop(30, lambda: received.extend(child.reports.receive())) == []
    assert "after the large one" in received
    assert child.exit_code == 0


@pytest.mark.parametrize("action", [spawned.hang, spawned.stop_itself])
def test_a_child_that_does_not_listen_is_killed_and_the_others_are_not(action, supervisor, await_report):
    """One that hangs in its own code, and one that the kernel has stopped."""
    deaf = supervisor.spawn(settings("Deaf"), partial(spawned.make_spawned, start=action))
    good = supervisor.spawn(settings("Good"), spawned.make_spawned)
    await_report(deaf, lambda report: report == "deaf from here on")
    await_report(good, is_started)
    assert supervisor.stop(0.5, lambda: None) == [deaf]
    assert deaf.exit_code == -signal.SIGKILL
    assert deaf.describe_exit() == "was killed by signal 9 (SIGKILL)"
    assert good.exit_code == 0


def test_children_do_not_outlive_a_stop_that_goes_wrong(supervisor, await_report):
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=spawned.hang))
    await_report(child, lambda report: report == "deaf from here on")
    with pytest.raises(ZeroDivisionError):
        supervisor.stop(30, lambda: 1 // 0)
    assert child.exit_code == -signal.SIGKILL


def test_a_killed_child_is_noticed_although_its_games_live_on(supervisor, await_report, wait_until):
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=spawned.start_games))
    _, game, abandoned = await_report(child, lambda report: isinstance(report, list))
    waiter = PipeWaiter([child.exit])
    assert waiter.wait(0) == []
    assert child.describe_exit() == "is still running"
    supervisor.note_belongings(supervisor.children)
    os.kill(child.pid, signal.SIGKILL)
    assert waiter.wait(30) == [child.exit]
    assert child.exit.receive() == [child]
    assert not child.was_asked_to_end, "nobody asks with SIGKILL"
    assert not has_ended(game)
    supervisor.kill()
    wait_until(lambda: has_ended(game))
    assert has_ended(abandoned), "it had left the session on purpose"


def test_games_of_a_child_that_ends_in_order_end_with_it(supervisor, await_report):
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=spawned.start_games))
    _, *games = await_report(child, lambda report: isinstance(report, list))
    assert supervisor.stop(30, lambda: None) == []
    assert all(map(has_ended, games))


def test_what_one_child_has_started_is_not_ended_with_another(supervisor, await_report, wait_until):
    start = partial(spawned.make_spawned, start=spawned.start_games)
    lost, good = (supervisor.spawn(settings(name), start) for name in ("Lost", "Good"))
    of_lost, of_good = (await_report(child, lambda report: isinstance(report, list))[1:] for child in (lost, good))
    supervisor.note_belongings(supervisor.children)
    os.kill(lost.pid, signal.SIGKILL)
    wait_until(lambda: not lost.is_alive())
    supervisor.bury(lost)
    assert all(map(has_ended, of_lost))
    assert not any(map(has_ended, of_good))


@pytest.mark.parametrize("is_killed", [True, False])
def test_shared_memory_that_a_child_leaves_behind_is_removed(is_killed, supervisor, await_report, names, wait_until):
    child = supervisor.spawn(settings(), partial(spawned.make_maps_files, new=names))
    await_report(child, lambda report: report == "mapped")
    supervisor.note_belongings(supervisor.children)
    if is_killed:
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda: not child.is_alive())
        assert all(map(os.path.exists, names))
    supervisor.stop(30, lambda: None)
    assert not any(map(os.path.exists, names))


def test_games_of_a_killed_child_and_their_shared_memory_are_removed(supervisor, await_report, names):
    action = partial(spawned.start_game_that_maps, names[0])
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=action))
    _, game = await_report(child, lambda report: isinstance(report, list))
    os.kill(child.pid, signal.SIGKILL)
    supervisor.kill()
    assert has_ended(game)
    assert not os.path.exists(names[0])


def test_shared_memory_of_a_child_that_has_to_be_killed_is_removed_without_having_been_noted(
    supervisor, await_report, names
):
    child = supervisor.spawn(settings(), partial(spawned.make_maps_files, new=names, start=spawned.hang))
    await_report(child, lambda report: report == "mapped")
    assert supervisor.kill() == [child]
    assert not any(map(os.path.exists, names))


def test_shared_memory_that_a_child_has_told_of_is_removed_with_it_although_nobody_has_looked(
    supervisor, await_report, names, wait_until
):
    """Its game and it itself are gone before anybody sees what they map."""
    child = supervisor.spawn(settings(), partial(spawned.make_maps_files, new=names, start=spawned.tell_of(names[:1])))
    told = await_report(child, lambda report: isinstance(report, SharedMemoryNames))
    os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: not child.is_alive())
    supervisor.note_shared_memory(told)
    supervisor.bury(child)
    assert [os.path.exists(name) for name in names] == [False, True]


@pytest.fixture
def shared_name(names):
    """A name for a file of several children, free again in the end."""
    shared_name = f"{names[0]}_shared"
    yield shared_name
    Path(shared_name).unlink(missing_ok=True)


def test_shared_memory_of_the_living_stays_when_another_is_buried(
    supervisor, await_report, wait_until, names, shared_name
):
    """An environment may map a file during its resets alone: nobody maps it when the other one ends."""
    lost, good = (supervisor.spawn(settings(), partial(spawned.make_maps_files, new=[name])) for name in names)
    Path(shared_name).touch()
    for child in (lost, good):
        await_report(child, lambda report: report == "mapped")
        supervisor.note_shared_memory(SharedMemoryNames(frozenset({shared_name}), child.pid))
    supervisor.note_belongings(supervisor.children)
    for child in (lost, good):  # it maps nothing from now on, and is not buried yet
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda child=child: not child.is_alive())
    supervisor.bury(lost)
    assert [os.path.exists(name) for name in (*names, shared_name)] == [False, True, True]
    supervisor.kill()
    assert not any(map(os.path.exists, (*names, shared_name)))


def test_lost_children_leave_no_descriptors_open_although_no_garbage_is_collected(supervisor):
    def lose_one():
        supervisor.bury(supervisor.spawn(settings(), spawned.make_spawned))
        return len(spawned.list_descriptors())

    gc.collect()
    gc.disable()
    try:
        first = lose_one()  # starts multiprocessing's resource tracker, too
        assert [lose_one() for _ in range(4)] == [first] * 4
    finally:
        gc.enable()


@pytest.fixture
def old_name(names):
    """A file of somebody else, in time for the supervisor to see that it was there before."""
    Path(names[0]).write_bytes(bytes(4096))
    return names[0]


@pytest.mark.parametrize("is_killed", [True, False])
def test_shared_memory_that_was_there_before_stays_although_a_child_writes_to_it(
    is_killed, old_name, supervisor, await_report, names
):
    child = supervisor.spawn(settings(), partial(spawned.make_maps_files, new=names[1:], old=[old_name]))
    await_report(child, lambda report: report == "mapped")
    if is_killed:
        supervisor.kill()
    else:
        supervisor.stop(30, lambda: None)
    assert [os.path.exists(name) for name in names] == [True, False]


def test_shared_memory_that_somebody_else_uses_stays(supervisor, await_report, names):
    child = supervisor.spawn(settings(), partial(spawned.make_maps_files, new=names))
    await_report(child, lambda report: report == "mapped")
    memory = spawned.map_file(names[0], "r+b")
    supervisor.stop(30, lambda: None)
    assert [os.path.exists(name) for name in names] == [True, False]
    memory.close()


def test_the_beat_notes_shared_memory_now_and_then(supervisor, monkeypatch):
    notes = []
    monkeypatch.setattr(supervisor, "note_belongings", lambda _: notes.append(None))
    now_s = 1000.0
    monkeypatch.setattr(supervisor_module.time, "monotonic", lambda: now_s)
    for now_s in (1000.0, 1000.1, 1001.9, 1002.0, 1003.9, 1010.0, 1010.1):  # noqa: B007 (the clock reads it)
        supervisor.beat()
    assert len(notes) == 3


def test_stopping_and_killing_again_is_fine(supervisor, await_report):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    await_report(child, is_started)
    assert supervisor.stop(30, lambda: None) == []
    assert supervisor.stop(30, lambda: None) == []
    assert supervisor.kill() == []


def test_python_s_exit_does_not_wait_for_a_child_that_cannot_even_be_killed(supervisor, monkeypatch, caplog):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    with monkeypatch.context() as stuck:
        stuck.setattr(child, "kill", lambda: None)
        stuck.setattr(supervisor_module, "end_sessions", lambda *_: set())
        stuck.setattr(supervisor_module, "_END_S", 0.1)
        assert supervisor.kill() == [child]
    try:
        assert child._process not in multiprocessing.active_children()
        assert f"Spawned (process {child.pid}) cannot be killed" in caplog.text
    finally:
        child._process.kill()
        child._process.join()


def test_a_supervisor_without_children_stops_at_once(supervisor):
    assert supervisor.stop(30, lambda: None) == []


def test_a_lost_child_is_buried_with_its_games_and_the_others_go_on(supervisor, await_report):
    lost = supervisor.spawn(settings("Lost"), partial(spawned.make_spawned, start=spawned.start_games))
    good = supervisor.spawn(settings("Good"), spawned.make_spawned)
    _, game, abandoned = await_report(lost, lambda report: isinstance(report, list))
    await_report(good, is_started)
    supervisor.bury(lost)
    assert supervisor.children == [good]
    assert has_ended(game)
    assert has_ended(abandoned), "it had left the session on purpose"
    assert good.is_alive()
    assert supervisor.stop(30, lambda: None) == []
