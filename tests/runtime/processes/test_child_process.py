"""A child as its parent sees it: asked for something, looked into, and how it ended."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import re
import resource
import signal
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest
import spawned_components as spawned

from sample_profiler.errors import CommandError
from sample_profiler.profiling import Timing
from sample_profiler.run.commands.sender import CommandSender
from sample_profiler.runtime.commands.commands import Command, CommandResult
from sample_profiler.runtime.messages.channels import PipeReports
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.child import ChildSettings
from sample_profiler.runtime.processes.child_process import Child

PATIENCE_S = 60.0


def settings():
    return ChildSettings("Spawned")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EMFILE, "Too many open files")])
def test_a_process_that_nobody_knows_of_yet_does_not_outlive_its_start(error, monkeypatch):
    """A second Ctrl+C may come in between, or there are too many open files to watch it."""

    def fail(_):
        raise error

    monkeypatch.setattr(os, "pidfd_open", fail)
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    with pytest.raises(type(error)):
        Child(settings(), process, SimpleNamespace(reports=None, control=None, stacks=None))
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize(("number", "name"), [(signal.SIGUSR2, "SIGUSR2"), (signal.SIGRTMIN + 3, r"SIGRTMIN\+3")])
def test_the_end_by_any_signal_has_words(supervisor, number, name):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    os.kill(child.pid, number)
    child._process.join(10)
    assert re.fullmatch(rf"was killed by signal {int(number)} \({name}\)", child.describe_exit())


def use_processor(limits_s):
    resource.setrlimit(resource.RLIMIT_CPU, limits_s)
    while True:
        pass


@pytest.mark.parametrize(("limits_s", "name"), [((1, 5), "SIGXCPU"), ((1, 1), "SIGKILL")])
def test_who_has_used_up_its_processor_time_is_said_to_have(supervisor, await_report, monkeypatch, limits_s, name):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    child.send_command(Command(1, "apply", (use_processor, limits_s)))
    child._process.join(PATIENCE_S)
    number = signal.Signals[name]
    assert child.describe_exit() == f"was killed by signal {int(number)} ({name})", "this process has no such limit"
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits_s)
    told = f"was killed by signal {int(number)} ({name}), as it had had the 1 s of processor time that a process may"
    assert child.describe_exit().startswith(told)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    assert child.describe_exit() == f"was killed by signal {int(number)} ({name})", "that is not why"


def end_while_another_uses_the_processor(seconds):
    worker = multiprocessing.get_context("fork").Process(target=use_processor, args=((seconds, seconds),))
    worker.start()
    worker.join()
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_its_simulators_have_used_is_not_its_own_processor_time(supervisor, monkeypatch):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    child.send_command(Command(1, "apply", (end_while_another_uses_the_processor, 4)))
    child._process.join(PATIENCE_S)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4, 4))
    assert child.describe_exit() == "was killed by signal 9 (SIGKILL)"


def die_of(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_where_native_code_has_crashed_is_told_by_line(supervisor, await_report, number):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    child.send_command(Command(1, "apply", (lambda _: None, 0)))
    await_report(child, lambda report: isinstance(report, CommandResult))
    assert "in _turn" in child.dump_stacks(), "that it was looked into before is not taken for a crash"
    child.send_command(Command(2, "apply", (die_of, number)))
    child._process.join(10)
    told = child.describe_crash()
    assert told.startswith("its threads were here:\nThread 0x") and told.count("Current thread") == 1
    assert 'test_child_process.py", line' in told and "in die_of" in told
    assert "Extension modules" not in told


def test_who_has_ended_otherwise_has_not_crashed(supervisor):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    child.kill()
    child._process.join(10)
    assert child.describe_crash() == ""


def test_a_process_that_cannot_begin_raises_as_it_is():
    process = SimpleNamespace(start=lambda: {}["none"], pid=None)
    with pytest.raises(KeyError):
        Child(settings(), process, SimpleNamespace(reports=None, control=None, stacks=None))


def test_a_command_reaches_a_child_with_its_arguments_by_value(supervisor, await_report):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    child.send_command(Command(5, "apply", (lambda value: value + 1, 20)))
    answer = await_report(child, lambda report: isinstance(report, CommandResult))
    assert answer == CommandResult(5, "Spawned", 21, None)


def test_a_command_larger_than_the_pipe_reaches_a_child_that_is_still_starting_whole(supervisor, wait_until):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    child.send_command(Command(5, "apply", (len, bytes(4 << 20))))
    received = []

    def is_answered():
        supervisor.beat()
        received.extend(child.reports.receive())
        return CommandResult(5, "Spawned", 4 << 20, None) in received

    wait_until(is_answered)
    assert child.flush()


def test_a_command_to_a_child_that_does_not_read_is_no_wait(supervisor, await_report, wait_until):
    child = supervisor.spawn(settings(), spawned.make_spawned)
    await_report(child, lambda report: isinstance(report, Heartbeat))
    os.kill(child.pid, signal.SIGSTOP)

    def ask():
        command_sender = CommandSender([child], supervisor.beat, lambda: "", Timing("Runner profile"))
        with contextlib.suppress(CommandError):
            command_sender.call("apply", {child.name: (len, bytes(4 << 20))}, timeout_s=0.1)
            raise AssertionError("who should have answered?")
        answered.append(child)

    answered = []
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert answered
    assert not child.flush(), "it may go on one day"
    child.kill()
    wait_until(lambda: not child.is_alive())
    assert child.flush()


@pytest.mark.parametrize(("method", "patience_s"), [("enable_profile", 120), ("start_capture", 120), ("apply", 6)])
def test_a_child_that_captures_has_time_to_write_what_it_saw_at_the_end(method, patience_s):
    process = SimpleNamespace(start=lambda: None, pid=os.getpid())
    child = Child(settings(), process, SimpleNamespace(reports=None, control=PipeReports(), stacks=None))
    child.send_command(Command(1, method))
    assert child.patience_s == patience_s


def test_a_child_that_hangs_tells_where_its_threads_are(supervisor, await_report):
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=spawned.hang))
    await_report(child, lambda report: report == "deaf from here on")
    stacks = child.dump_stacks()
    assert "in hang" in stacks
    assert "in watch_runner" in stacks, "all threads"
    assert child.is_alive()


def test_a_child_with_handlers_of_its_own_tells_it_and_they_hear_of_nothing(supervisor, await_report):
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=spawned.hang_with_own_handlers))
    await_report(child, lambda report: report == "deaf from here on")
    assert "in hang" in child.dump_stacks()
    assert not [report for report in child.reports.receive() if str(report).startswith("signal")]
    assert child.is_alive()


def test_a_child_that_cannot_be_asked_is_left_alive(supervisor, await_report):
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=spawned.hang_without_handlers))
    await_report(child, lambda report: report == "deaf from here on")
    assert child.dump_stacks() == ""
    assert child.is_alive()


def test_a_child_that_is_stopped_cannot_tell_and_one_that_is_gone_neither(supervisor, await_report, wait_until):
    child = supervisor.spawn(settings(), partial(spawned.make_spawned, start=spawned.stop_itself))
    await_report(child, lambda report: report == "deaf from here on")
    assert child.dump_stacks() == ""
    child.kill()
    wait_until(lambda: not child.is_alive())
    assert child.dump_stacks() == ""
