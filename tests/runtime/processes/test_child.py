"""The guarantees of a child process, numbered as in the module's docstring, each in a real process."""

from __future__ import annotations

import fcntl
import logging
import logging.handlers
import os
import resource
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import spawned_components as spawned
from spawned_components import has_ended

from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.runtime.commands.commands import Command, CommandResult, Patience
from sample_profiler.runtime.loop.recording import RecordingOptions
from sample_profiler.runtime.messages import heartbeats
from sample_profiler.runtime.messages.channels import LocalReports, PipeChannel, PipeEnd, PipeReports, make_pipe
from sample_profiler.runtime.messages.heartbeats import CAPTURE_S, Heartbeat, RunnerPulse
from sample_profiler.runtime.processes import child as child_module
from sample_profiler.runtime.processes import runner_gone
from sample_profiler.runtime.processes.child import ChildLinks, ChildSettings, Finished, finish_component, report_end
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.runtime.surroundings.own_pipes import OwnPipes

SETTINGS = ChildSettings("Spawned")
SPAWN_ONE_AND_SLEEP = """
import sys, time
from functools import partial
import spawned_components as spawned
from sample_profiler.runtime.processes.child import ChildSettings
from sample_profiler.runtime.processes.supervisor import Supervisor

if __name__ == "__main__":
    supervisor = Supervisor()  # kept: with it goes the lifeline
    settings = ChildSettings("Orphan", patience_s=0.1)
    child = supervisor.spawn(settings, partial(spawned.make_spawned, start=spawned.{action}))
    while True:
        for report in child.reports.receive():
            if isinstance(report, list):
                print(child.pid, *report[1:], flush=True)
        time.sleep(0.01)
"""


def of_type(received, kind):
    return [report for report in received if isinstance(report, kind)]


def types_of(received):
    """Return the types of reports but those that come at intervals, too."""
    return [type(report) for report in received if not isinstance(report, Heartbeat)]


@pytest.fixture
def default_signals():
    """A SIGHUP that is not ignored, whoever runs the tests."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, previous)


@pytest.fixture
def run_to_its_end(supervisor, reports_until_end):
    """Run a component until its process ends; return what it reported and the exit status."""

    def run(maker=spawned.make_spawned, settings=SETTINGS, **actions):
        child = supervisor.spawn(settings, partial(maker, **actions))
        return reports_until_end(child), child.exit_code

    return run


def test_1_an_error_in_the_constructor_is_a_failure_with_its_traceback(run_to_its_end):
    received, status = run_to_its_end(spawned.make_broken)
    (failure,) = received
    assert failure.component == "Spawned"
    assert failure.message == "ValueError: broken on purpose"
    assert "in make_broken" in failure.traceback_text
    assert "KeyError: 'the cause'" in failure.traceback_text
    assert status == 1


def test_1_and_2_an_error_in_start_is_a_failure_and_the_component_finishes_all_the_same(run_to_its_end):
    received, status = run_to_its_end(start=spawned.raise_error)
    assert types_of(received) == [Failure, str, Finished]
    failure, finish, *_ = received
    assert "in start" in failure.traceback_text
    assert finish == "finish was called"
    assert of_type(received, Heartbeat) == [], "it has not begun its work"
    assert status == 1


def test_1_and_2_an_error_in_a_handler_is_a_failure_and_the_component_finishes_all_the_same(run_to_its_end):
    channel = PipeChannel()
    channel.send([4, 5])
    received, status = run_to_its_end(handle=spawned.raise_error, channel=channel)
    assert types_of(received) == [list, Failure, str, Finished]
    assert [4, 5] in received
    assert "in _on_values" in of_type(received, Failure)[0].traceback_text
    assert status == 1


def test_1_and_2_an_error_in_finish_is_a_failure_and_the_timing_arrives(supervisor, reports_until_end, await_report):
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, finish=spawned.raise_error))
    await_report(child, lambda report: isinstance(report, Heartbeat))
    child.stop()
    received = reports_until_end(child)
    assert types_of(received) == [str, Failure, Finished]
    assert child.exit_code == 1


def test_1_an_error_while_the_process_is_prepared_is_a_failure_too(run_to_its_end):
    received, status = run_to_its_end(settings=ChildSettings("Nowhere", cpus=(100_000,)))
    (failure,) = received
    assert failure.component == "Nowhere"
    assert failure.message.startswith("OSError")
    assert status == 1


def test_1_and_2_leaving_with_success_in_the_middle_of_a_run_is_a_failure(run_to_its_end):
    received, status = run_to_its_end(start=spawned.leave_with_success)
    assert types_of(received) == [Failure, str, Finished]
    assert of_type(received, Failure)[0].message == "SystemExit: 0"
    assert status == 1


def test_1_an_exception_that_cannot_be_printed_is_a_failure_all_the_same(run_to_its_end):
    received, status = run_to_its_end(start=spawned.raise_unprintable)
    (failure,) = of_type(received, Failure)
    assert failure.message == "UnprintableError"
    assert "raise_unprintable" in failure.traceback_text
    assert status == 1


def test_2_a_component_that_is_told_to_stop_finishes_in_order(supervisor, reports_until_end, await_report):
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, start=spawned.describe_process))
    await_report(child, lambda report: isinstance(report, dict))
    child.stop()
    received = reports_until_end(child)
    assert received[0] == "finish was called"
    assert child.exit_code == 0
    (finished,) = of_type(received, Finished)
    timing = Timing.from_dict(finished.unrecorded)
    assert timing.name == "Spawned profile"
    assert set(timing) == {"start_up", "start", "wait_test", "receive", "finish"}


def test_2_a_component_without_a_standard_output_ends_in_order(supervisor, reports_until_end):
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, start=spawned.lose_its_output))
    child.stop()
    reports_until_end(child)
    assert child.exit_code == 0


def test_3_ctrl_c_does_not_reach_a_child(supervisor, await_report, reports_until_end):
    channel = PipeChannel()
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, channel=channel))
    await_report(child, lambda report: isinstance(report, Heartbeat))
    os.kill(child.pid, signal.SIGINT)
    channel.send([1])
    assert await_report(child, lambda report: report == [1])
    child.stop()
    reports_until_end(child)
    assert child.exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_3_a_child_that_is_asked_to_end_by_a_signal_finishes_and_dies_of_it(
    number, supervisor, await_report, reports_until_end, default_signals
):
    child = supervisor.spawn(SETTINGS, spawned.make_spawned)
    await_report(child, lambda report: isinstance(report, Heartbeat))
    assert not child.was_asked_to_end
    os.kill(child.pid, number)
    assert types_of(reports_until_end(child)) == [str, Finished]
    assert child.exit_code == -number
    assert child.was_asked_to_end


def test_3_a_child_that_is_asked_to_end_by_a_signal_and_cannot_finish_says_so(
    supervisor, await_report, reports_until_end
):
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, finish=spawned.raise_error))
    await_report(child, lambda report: isinstance(report, Heartbeat))
    os.kill(child.pid, signal.SIGTERM)
    assert types_of(reports_until_end(child)) == [str, Failure, Finished]
    assert child.exit_code == 1


@pytest.mark.parametrize("action", [spawned.raise_after_a_signal, spawned.raise_before_a_signal])
def test_3_what_is_raised_by_a_child_that_is_asked_to_end_by_a_signal_is_no_failure(action, run_to_its_end):
    """Simulators of its environments die of the same signal, some of them before it gets its own."""
    received, status = run_to_its_end(start=action)
    assert types_of(received) == [logging.LogRecord, str, Finished]
    (record,) = of_type(received, logging.LogRecord)
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "Spawned was asked to end, and could not go on until then: ValueError: broken on purpose"
    )
    assert status == -signal.SIGTERM


def test_3_processes_that_a_child_forks_are_ended_by_sigterm(supervisor, await_report):
    channel = PipeChannel()
    channel.send([1])
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, handle=spawned.describe_fork, channel=channel))
    assert await_report(child, lambda report: isinstance(report, str)) == "SIGTERM ends it: True"


@pytest.mark.parametrize("action", ["start_games", "start_games_and_hang"])
def test_4_without_the_runner_a_child_ends_and_takes_its_own_children_with_it(action, wait_until):
    """Also when it hangs, and also children that a script left behind in sessions of their own."""
    runner = subprocess.Popen(
        [sys.executable, "-c", SPAWN_ONE_AND_SLEEP.format(action=action)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert runner.stdout is not None
        pids = [int(word) for word in runner.stdout.readline().split()]
        assert len(pids) == 3
        assert not any(map(has_ended, pids))
    finally:
        runner.kill()  # SIGKILL: it can do nothing about its children
        runner.wait()
        runner.stdout.close()
    wait_until(lambda: all(map(has_ended, pids)))


def test_4_children_end_although_their_siblings_live_on(supervisor, await_report, reports_until_end):
    """No child holds the pipe open that tells the others of the Runner's end."""
    children = [supervisor.spawn(SETTINGS, spawned.make_spawned) for _ in range(2)]
    for child in children:
        await_report(child, lambda report: isinstance(report, Heartbeat))
    supervisor._lifeline_write.close()  # as the kernel does when the Runner is gone
    for child in children:
        assert "finish was called" in reports_until_end(child)


def test_4_children_of_a_runner_that_hangs_end_and_leave_word_why(supervisor, await_report, reports_until_end):
    """It never beats again: children look at its pulse, and finish in order."""
    settings = ChildSettings("Spawned", hang_timeout_s=0.5)
    child = supervisor.spawn(settings, spawned.make_spawned)
    await_report(child, lambda report: isinstance(report, Heartbeat))
    received = reports_until_end(child)
    assert types_of(received) == [logging.LogRecord, str, Finished]
    (record,) = of_type(received, logging.LogRecord)
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("Spawned finishes and ends: the Runner has shown no sign of life for ")


def test_4_without_the_runner_a_child_may_take_as_long_to_finish_as_with_it(monkeypatch):
    slept, ended = [], []
    monkeypatch.setattr(runner_gone.time, "sleep", slept.append)
    monkeypatch.setattr(runner_gone, "end_descendants", lambda _: None)
    monkeypatch.setattr(runner_gone.os, "_exit", ended.append)
    lifeline, write = make_pipe()
    write.close()  # as the kernel does when the Runner is gone
    links = ChildLinks(PipeReports(), PipeReports(), lifeline, RunnerPulse(), PipeEnd(-1))
    settings = ChildSettings("Learner_0")
    runner_gone.watch_runner(settings, links, threading.Event(), frozenset(), Patience(120.0), OwnPipes())
    assert (slept, ended) == ([120.0], [1])
    assert links.reports.receive() == [], "nobody would take it"


def test_4_the_end_of_the_runner_is_seen_whatever_the_number_of_the_lifeline():
    lifeline, write = make_pipe()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1100:
        pytest.skip("so many files cannot be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    try:
        far = PipeEnd(fcntl.fcntl(lifeline.fileno(), fcntl.F_DUPFD, 1024))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not runner_gone.is_closed(far)
    write.close()
    assert runner_gone.is_closed(far)
    far.close()


def test_4_a_child_ends_also_where_what_it_has_started_cannot_be_ended(monkeypatch):
    ended = []

    def fail(_):
        raise OSError("no such thing")

    monkeypatch.setattr(runner_gone, "end_descendants", fail)
    monkeypatch.setattr(runner_gone.os, "_exit", ended.append)
    lifeline, write = make_pipe()
    write.close()  # as the kernel does when the Runner is gone
    links = ChildLinks(PipeReports(), PipeReports(), lifeline, RunnerPulse(), PipeEnd(-1))
    with pytest.raises(OSError, match="no such thing"):
        runner_gone.watch_runner(SETTINGS, links, threading.Event(), frozenset(), Patience(0.0), OwnPipes())
    assert ended == [1]


def test_4_a_child_that_cannot_finish_ends_although_its_runner_hangs(supervisor, reports_until_end):
    settings = ChildSettings("Spawned", hang_timeout_s=0.5, patience_s=0.5)
    child = supervisor.spawn(settings, partial(spawned.make_spawned, start=spawned.hang))
    assert "finish was called" not in reports_until_end(child)
    assert child.exit_code == 1


def test_4_a_child_that_waits_for_room_for_its_reports_finishes_although_its_runner_hangs(
    supervisor, wait_until, tmp_path
):
    mark = tmp_path / "finished"
    actions = {"start": spawned.send_many_reports, "finish": partial(spawned.leave_a_mark, mark)}
    child = supervisor.spawn(ChildSettings("Spawned", hang_timeout_s=0.5), partial(spawned.make_spawned, **actions))
    fcntl.fcntl(child.reports.fileno(), fcntl.F_SETPIPE_SZ, 4096)
    wait_until(lambda: not child.is_alive())
    assert mark.exists()
    assert child.exit_code == 0
    numbers = [report[0] for report in child.reports.receive() if isinstance(report, list)]
    assert numbers == list(range(len(numbers)))
    assert 0 < len(numbers) < 1000


def test_4_children_stay_while_their_runner_waits_for_a_file_system(supervisor, await_report, monkeypatch):
    monkeypatch.setattr(heartbeats, "_PULSE_S", 0.05)
    settings = ChildSettings("Spawned", hang_timeout_s=0.5, heartbeat_interval_s=0.5)
    child = supervisor.spawn(settings, spawned.make_spawned)
    with supervisor.beating():
        for _ in range(10):
            await_report(child, lambda report: isinstance(report, Heartbeat))
    assert supervisor.stop(30, lambda: None) == []


def test_4_children_stay_as_long_as_their_runner_shows_that_it_is_there(supervisor, await_report):
    settings = ChildSettings("Spawned", hang_timeout_s=0.5, heartbeat_interval_s=0.5)
    child = supervisor.spawn(settings, spawned.make_spawned)
    num_beats = 0
    while num_beats < 10:
        supervisor.beat()
        num_beats += sum(isinstance(report, Heartbeat) for report in child.reports.receive())
        assert child.is_alive()
    assert supervisor.stop(30, lambda: None) == []


def test_6_log_records_travel_to_the_runner(run_to_its_end, supervisor, await_report):
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, start=spawned.warn))
    record = await_report(child, lambda report: isinstance(report, logging.LogRecord))
    assert record.name == "sample_profiler.test"
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "careful with ['lists', 1]"
    assert record.process == child.pid


def test_6_what_a_log_record_holds_beside_its_text_cannot_fail_the_runner(supervisor, await_report):
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, start=spawned.warn_with_an_unreadable_extra))
    record = await_report(child, lambda report: isinstance(report, logging.LogRecord))
    assert (record.getMessage(), record.funcName) == ("careful", "warn_with_an_unreadable_extra")
    assert record.process == child.pid
    assert not hasattr(record, "cause") and record.env_id == 3, "what is plain reaches handlers of the user's"


def test_6_what_a_copy_of_a_child_logs_neither_waits_nor_tears_its_reports_apart(monkeypatch):
    monkeypatch.setattr(child_module, "_MOST_LOGGED", 1_500)  # a pipe may have room for two pages alone
    reports = PipeReports()
    handler = logging.handlers.QueueHandler(child_module._RecordsToRunner(reports))
    record = partial(logging.LogRecord, "simulator", logging.INFO, "", 0)
    with reports._sending:  # another thread is about to send: nobody in the copy will let go of this
        if (copy := os.fork()) == 0:
            handler.emit(record("lost", (), None))
            os._exit(0)
        assert os.waitpid(copy, 0) == (copy, 0)
    if (copy := os.fork()) == 0:
        for text in ("first", "€" * 100_000):
            handler.emit(record(text, (), None))
        os._exit(0)
    assert os.waitpid(copy, 0) == (copy, 0)
    handler.emit(record("y" * 1_000_000, (), None))
    first, second, own = (report.getMessage() for report in reports.receive())
    assert first == "first"
    assert "… (99,000 characters are left out) …" in second
    assert "… (998,500 characters are left out) …" in own


def test_6_records_below_the_level_stay_where_they_are(supervisor, reports_until_end, await_report):
    settings = ChildSettings("Quiet", log_level=logging.ERROR)
    child = supervisor.spawn(settings, partial(spawned.make_spawned, start=spawned.warn))
    child.stop()
    assert of_type(reports_until_end(child), logging.LogRecord) == []


def test_7_a_component_may_print_though_nobody_reads_it(supervisor, await_report, reports_until_end):
    child = supervisor.spawn(SETTINGS, partial(spawned.make_spawned, start=spawned.print_to_nobody))
    assert await_report(child, lambda report: report == "printed")
    child.stop()
    reports_until_end(child)
    assert child.exit_code == 0


def test_a_component_shows_signs_of_life_from_the_end_of_its_start_on(supervisor, wait_until):
    settings = ChildSettings("Spawned", heartbeat_interval_s=0.01)
    child = supervisor.spawn(settings, partial(spawned.make_spawned, start=spawned.warn))
    received = []
    wait_until(lambda: received.extend(child.reports.receive()) or len(of_type(received, Heartbeat)) >= 3)
    assert isinstance(received[0], logging.LogRecord)
    assert set(of_type(received, Heartbeat)) == {Heartbeat("Spawned")}


def test_a_child_that_begins_or_ends_a_capture_has_minutes_for_it(supervisor, await_report, wait_until, tmp_path):
    child = supervisor.spawn(ChildSettings("Spawned", heartbeat_interval_s=3600), spawned.make_spawned)
    await_report(child, lambda report: isinstance(report, Heartbeat))
    child.send_command(Command(1, "start_capture", ("cprofile", str(tmp_path / "part"))))
    child.send_command(Command(2, "stop_capture", ("cprofile",)))
    child.send_command(Command(3, "apply", (len, ())))
    received = []
    wait_until(lambda: received.extend(child.reports.receive()) or len(of_type(received, CommandResult)) == 3)
    seen = [report.patience_s if isinstance(report, Heartbeat) else report.number for report in received]
    assert seen == [CAPTURE_S, 1, 0.0, CAPTURE_S, 2, 0.0, 3]


def test_the_tree_and_the_gauges_of_a_component_are_in_its_record_file_also_when_it_fails(
    supervisor, tmp_path, reports_until_end
):
    settings = ChildSettings("Spawned", recording=RecordingOptions(tmp_path))
    child = supervisor.spawn(settings, partial(spawned.make_spawned, start=spawned.raise_error))
    reports_until_end(child)
    (path,) = tmp_path.glob("*.rec")
    record = read_record_file(path)
    assert path.name == f"Spawned.{child.pid}.rec"
    assert record.state == "ended"
    assert {"start_up", "start", "finish"} <= set(record.trees["Spawned"].children)
    assert {"Spawned/always", "memory_mib"} <= set(record.gauges)


def test_without_room_for_a_record_file_the_component_runs_and_says_so(supervisor, tmp_path, reports_until_end):
    (tmp_path / "file").write_text("in the way")
    settings = ChildSettings("Spawned", recording=RecordingOptions(tmp_path / "file"))
    child = supervisor.spawn(settings, partial(spawned.make_spawned, start=spawned.raise_error))
    received = reports_until_end(child)
    assert any("no record file" in report.getMessage() for report in of_type(received, logging.LogRecord))
    assert of_type(received, Finished)


def test_the_process_is_as_its_settings_say(supervisor, await_report):
    cpu = min(os.sched_getaffinity(0))
    settings = ChildSettings("Described", niceness=3, cpus=(cpu,), num_threads=5)
    child = supervisor.spawn(settings, partial(spawned.make_spawned, start=spawned.describe_process))
    facts = await_report(child, lambda report: isinstance(report, dict))
    assert facts["session"]
    assert facts["goes_on_at_sigint"]
    assert facts["niceness"] == os.nice(0) + 3
    assert facts["autogroup"] is None or os.geteuid() or facts["autogroup"].endswith(f" nice {os.nice(0) + 3}\n")
    assert facts["cpus"] == {cpu}
    assert facts["threads"] == "5"


def test_nothing_that_a_child_is_handed_is_passed_on_to_its_games(supervisor, await_report):
    channel = PipeChannel()
    maker = partial(spawned.make_spawned, start=spawned.describe_process, channel=channel)
    child = supervisor.spawn(SETTINGS, maker)
    inheritable = await_report(child, lambda report: isinstance(report, dict))["inheritable"]
    # Descriptors have the same numbers in the child. Others that games inherit are multiprocessing's own.
    channels = (channel, child.reports, child._control)
    ends = [end for c in channels for end in (c._read, c._write)] + [supervisor._lifeline]
    assert not {end.fileno() for end in ends} & set(inheritable)


def test_captures_end_with_a_component_that_cannot_finish(monkeypatch):
    ended = []
    monkeypatch.setattr(child_module, "end_captures", lambda: ended.append(1))
    reports = LocalReports()
    assert finish_component(spawned.Spawned(reports, finish=spawned.raise_error), reports) is False
    assert ended


def test_finishing_reports_the_timing_whether_it_goes_well_or_not():
    reports = LocalReports()
    for finish, is_well in ((None, True), (spawned.raise_error, False), (spawned.leave_with_success, False)):
        component = spawned.Spawned(reports, finish=finish)
        assert finish_component(component, reports) is is_well
        report_end(component, reports, is_recorded=False)
        report_end(component, reports, is_recorded=True)
    finished = of_type(reports.receive(), Finished)
    assert [report.component for report in finished] == ["Spawned"] * 6
    assert [report.unrecorded is None for report in finished] == [False, True] * 3, "a record file has it"
