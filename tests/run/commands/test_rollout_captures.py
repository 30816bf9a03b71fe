"""How captures of rollouts are asked for: rule TR9, the same for a Collector and for a live Runner."""

from __future__ import annotations

import inspect
import itertools
import time

import pytest

from sample_profiler.collector.collector import Collector
from sample_profiler.components.messages import Counters
from sample_profiler.config import parse_config
from sample_profiler.errors import CommandError
from sample_profiler.run.commands.sender import LocalTarget
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.runner import Runner
from sample_profiler.runtime.messages.channels import LocalReports
from tests.run.runner_doubles import FakeProcesses, make_links

DEFAULTS = {
    "workers": None, "num_rollouts": 3, "warmup_rollouts": 1, "save_path": None, "activities": None,
    "record_shapes": True, "profile_memory": False, "with_stack": True, "with_flops": False, "on_trace_ready": None,
}  # fmt: skip


class Worker:
    """Is asked as a RolloutWorker, in this process."""

    def __init__(self, index):
        self.name = f"RolloutWorker_w{index}"
        self.requests = []

    def commands(self):
        return {"enable_profile": self.requests.append, "disable_profile": self.disable_profile}

    def disable_profile(self):
        return self.requests.pop().path if self.requests else None


class SilentWorker:
    """Is asked, and never answers."""

    name, pid = "RolloutWorker_w0", 1

    def send_command(self, command):
        pass

    def is_alive(self):
        return True


@pytest.fixture
def make_runner(tmp_path):
    """Make a Runner in command of two workers, or of the members given."""
    runners = []

    def make(members=None, observers=()):
        config = parse_config(["--env=fake", "--num_workers=2"])
        links = make_links(config, tmp_path / "run", FakeProcesses(), [])
        runner = Runner(config, Counters(2, 1), [1], tmp_path / "run", observers, links, time.monotonic())
        runner.processes = links.processes
        runner.workers, answers = [Worker(0), Worker(1)], LocalReports()
        runner.command(members or [LocalTarget(worker, answers) for worker in runner.workers], answers)
        runners.append(runner)
        return runner

    yield make
    for runner in runners:
        runner.finish()


@pytest.mark.parametrize("owner", [Runner, Collector])
def test_tr9_the_arguments_are_spelled_out(owner):
    _, *parameters = inspect.signature(owner.enable_profile).parameters.values()
    assert {parameter.name: parameter.default for parameter in parameters} == DEFAULTS
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}


def test_tr9_a_misspelled_argument_is_the_usual_error(make_runner):
    with pytest.raises(TypeError, match=r"enable_profile\(\) got an unexpected keyword argument 'num_rollout'"):
        make_runner().enable_profile(num_rollout=5)


def test_tr9_the_workers_of_a_run_in_one_process_get_what_was_asked_for(make_runner, tmp_path):
    runner = make_runner()
    asked = {"num_rollouts": 5, "warmup_rollouts": 2, "with_stack": False, "on_trace_ready": print}
    runner.enable_profile(workers=[1], save_path=tmp_path / "{worker_idx}" / "trace.json", **asked)
    first, second = (worker.requests for worker in runner.workers)
    assert first == []
    (request,) = second
    assert request.path == str(tmp_path / "1" / "trace.json")
    assert {name: getattr(request, name) for name in asked} == asked


def test_tr9_without_a_choice_it_is_worker_0_and_a_file_in_the_run_s_folder(make_runner, tmp_path):
    runner = make_runner()
    runner.enable_profile()
    trace = tmp_path / "run" / "profile" / "worker_0.json"
    assert [[request.path for request in worker.requests] for worker in runner.workers] == [[str(trace)], []]
    assert runner.disable_profile() == [trace]
    assert runner.disable_profile() == []


def test_workers_have_time_to_import_what_a_capture_needs(make_runner, monkeypatch):
    runner = make_runner([SilentWorker()])
    monkeypatch.setattr(time, "monotonic", itertools.count().__next__)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(CommandError, match=r"RolloutWorker_w0 did not answer 'enable_profile' within 120 s"):
        runner.enable_profile()


def test_a_runner_that_waits_for_an_answer_shows_that_it_goes_on(make_runner):
    runner = make_runner([SilentWorker()])
    with pytest.raises(CommandError, match="did not answer"):
        runner.call("disable_profile", timeout_s=0.02)
    assert len(runner.processes.beats) > 1


@pytest.mark.parametrize("is_serial", [True, False], ids=["serial", "parallel"])
def test_tr13_a_run_that_has_ended_has_ended_its_captures_and_begins_none(make_runner, caplog, is_serial):
    runner = make_runner(None if is_serial else [SilentWorker()])
    runner.interrupt("it has trained enough")
    assert runner.disable_profile() == []
    assert caplog.messages == []
    runner.enable_profile()
    runner.set_profiling_enabled(False)
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "enable_profile() does nothing, the run has ended",
        "set_profiling_enabled() does nothing, the run has ended",
    ]
    assert all("cannot answer" in message and "it has trained enough" in message for message in caplog.messages)
    if is_serial:
        assert runner.workers[0].requests == [], "a worker that has finished would accept it and do nothing"


def test_a_run_that_ends_while_an_answer_is_waited_for_does_not_fail(make_runner, caplog, monkeypatch):
    runner = make_runner([SilentWorker()])
    monkeypatch.setattr(time, "sleep", lambda _: runner.interrupt("it has trained enough"))
    runner.enable_profile()
    assert "enable_profile() does nothing, the run has ended: RolloutWorker_w0 cannot answer" in caplog.text


class Asking(RunObserver):
    """Asks components for something whenever it is told of anything."""

    def __init__(self):
        self.num_told = 0

    def on_training_step(self, runner, training_iteration):
        self.num_told += 1
        runner.call("disable_profile")

    def on_stop(self, runner):
        self.on_training_step(runner, 0)

    def on_summaries(self, status):
        self.num_told += 1


def test_an_observer_that_asks_at_the_end_of_a_run_does_not_fail_it(make_runner, caplog):
    observer = Asking()
    runner = make_runner(observers=[observer])
    runner.counters.training_iterations[0] = 1
    runner.interrupt("it has trained enough")
    runner.finish()
    assert runner.failure is None
    assert observer.num_told == 3, "it listens on"
    assert caplog.text.count("asked too late: RolloutWorker_w0, RolloutWorker_w1 cannot answer 'disable_profile'") == 1
