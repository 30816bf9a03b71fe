"""How captures of rollouts are asked for: rule TR9, the same for a Collector and for a live Runner."""

from __future__ import annotations

import inspect
import itertools
import time

import pytest

from sample_profiler.components.collector import Collector
from sample_profiler.components.crew import LocalMember
from sample_profiler.components.messages import Counters
from sample_profiler.components.runner import Runner
from sample_profiler.config import parse_config
from sample_profiler.errors import CommandError
from sample_profiler.runtime.channels import LocalReports

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

    def make(members=None):
        config = parse_config(["--env=fake", "--num_workers=2"])
        runner = Runner(config, Counters(2, 1), [], [], [], time.monotonic(), tmp_path / "run", [1])
        runner.workers, answers = [Worker(0), Worker(1)], LocalReports()
        runner.command(members or [LocalMember(worker, answers) for worker in runner.workers], answers)
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
    beats = []
    runner.beat = lambda: beats.append(time.monotonic())
    with pytest.raises(CommandError, match="did not answer"):
        runner.call("disable_profile", timeout_s=0.02)
    assert len(beats) > 1
