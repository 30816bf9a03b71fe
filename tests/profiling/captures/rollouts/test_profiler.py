"""Rollout-counted captures of one worker: rules TR9 to TR15, on a worker that is a few lines long."""

from __future__ import annotations

import cProfile
import gzip
import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, record_function

from sample_profiler.profiling import Timing
from sample_profiler.profiling.captures.rollouts import profiler as rollout_profiler
from sample_profiler.profiling.captures.rollouts.captures import RolloutCaptures
from sample_profiler.profiling.captures.rollouts.profiler import (
    ROLLOUT_END,
)
from sample_profiler.profiling.captures.rollouts.request import ProfileOptions, ProfileRequest, plan_profiles


class Worker:
    """Collects rollouts of two steps, one after another, and calls its hook after each."""

    def __init__(self, work=lambda number: torch.ones(2).sum()):
        self.captures = RolloutCaptures(self, 4)
        self.timing = Timing("RolloutWorker_w4 profile")
        self.num_rollouts = 0
        self.num_boundaries = 0
        self.work = work
        self.beats = []
        self.beat = self.beats.append

    def at_rollout_boundary(self, callback, most_begun=None):
        self.num_boundaries += 1
        callback()

    def collect(self, num_rollouts=1):
        for _ in range(num_rollouts):
            with record_function(f"rollout {self.num_rollouts}"):
                self.work(self.num_rollouts)
            self.num_rollouts += 1
            self.captures.tell(self.num_rollouts - 1)


@pytest.fixture
def worker():
    """A worker whose capture, should a test fail in the middle of it, does not go on in the next one."""
    worker = Worker()
    yield worker
    worker.captures.end()


@pytest.fixture
def request_for(tmp_path):
    def make(**options):
        return ProfileRequest(path=str(tmp_path / "traces" / "trace.json"), with_stack=False, **options)

    return make


def read_events(path):
    data = Path(path).read_bytes()
    return json.loads(gzip.decompress(data) if str(path).endswith(".gz") else data)["traceEvents"]


def names_in(path):
    return [event["name"] for event in read_events(path) if event.get("cat") == "user_annotation"]


def rollouts_in(path):
    return [name for name in names_in(path) if name.startswith("rollout ")]


@pytest.mark.parametrize(
    ("num_rollouts", "warmup_rollouts", "expected"),
    [(3, 1, [1, 2]), (3, 0, [0, 1, 2]), (1, 0, [0]), (4, 3, [3]), (5, 2, [2, 3, 4])],
)
def test_tr11_warm_up_is_in_no_trace_and_exactly_the_others_are(
    worker, request_for, num_rollouts, warmup_rollouts, expected
):
    request = request_for(num_rollouts=num_rollouts, warmup_rollouts=warmup_rollouts)
    worker.captures.enable(request)
    worker.collect(num_rollouts + 3)
    assert rollouts_in(request.path) == [f"rollout {number}" for number in expected]
    assert Counter(names_in(request.path))[ROLLOUT_END] == len(expected)


def test_tr12_it_stops_and_exports_by_itself_and_stopping_twice_is_fine(worker, request_for):
    request = request_for(num_rollouts=2, warmup_rollouts=1)
    worker.captures.enable(request)
    profiler = worker.captures.current
    worker.collect(1)
    assert not Path(request.path).exists()
    worker.collect(1)
    assert worker.captures.current is None
    assert profiler.trace == Path(request.path)
    before = Path(request.path).read_bytes()
    assert profiler.finish() == profiler.finish() == profiler.trace
    assert worker.captures.disable() is None
    assert Path(request.path).read_bytes() == before
    assert os.listdir(Path(request.path).parent) == ["trace.json"], "no partial file is left"


def test_tr13_disabling_when_off_does_nothing(worker):
    def hook(worker_idx, rollout):
        pass

    worker.captures.hook = hook
    assert worker.captures.disable() is None
    assert worker.captures.hook is hook


def test_tr13_disabling_exports_early_and_restores_the_very_hook_that_was_there(worker, request_for):
    calls = []

    class Hook:
        def __eq__(self, other):
            return True  # so that only identity tells

        def __call__(self, worker_idx, rollout):
            calls.append((worker_idx, rollout))

    hook = worker.captures.hook = Hook()
    request = request_for(num_rollouts=10, warmup_rollouts=1)
    worker.captures.enable(request)
    assert worker.captures.current is not None
    worker.collect(3)
    assert worker.captures.disable() == request.path
    assert worker.captures.current is None
    assert worker.captures.hook is hook
    assert rollouts_in(request.path) == ["rollout 1", "rollout 2"]
    worker.collect(1)
    assert calls == [(4, 0), (4, 1), (4, 2), (4, 3)], "it was called all the time"


def test_tr13_ending_by_itself_restores_the_hook_as_well(worker, request_for):
    hook = worker.captures.hook = lambda worker_idx, rollout: None
    worker.captures.enable(request_for(num_rollouts=1, warmup_rollouts=0))
    worker.collect(1)
    assert worker.captures.current is None
    assert worker.captures.hook is hook


def test_tr13_a_hook_that_is_set_meanwhile_is_the_one_that_stays(worker, request_for):
    calls = []

    def new_hook(worker_idx, rollout):
        calls.append(rollout)

    worker.captures.enable(request_for(num_rollouts=2, warmup_rollouts=1))
    worker.captures.hook = new_hook
    worker.collect(2)
    assert worker.captures.current is None
    assert worker.captures.hook is new_hook
    assert calls == [0, 1]
    worker.captures.hook = None
    worker.collect(1)
    assert calls == [0, 1]


def test_a_capture_and_the_hook_meanwhile_are_blocks_apart(worker, request_for):
    def passes():
        return {path: block.statistics.count for path, block in worker.timing.snapshot().children.items()}

    worker.captures.enable(request_for(num_rollouts=2, warmup_rollouts=1))
    worker.collect(2)
    assert passes() == {"rollout_profiler": 3}, "PyTorch is loaded, the capture begun, the trace written"
    worker.captures.hook = lambda worker_idx, rollout: None
    worker.captures.enable(request_for(num_rollouts=2, warmup_rollouts=1))
    worker.collect(3)
    assert passes() == {"rollout_profiler": 6, "post_collect_hook": 3}


def test_tr14_an_end_before_all_rollouts_exports_what_there_is(worker, request_for):
    request = request_for(num_rollouts=100, warmup_rollouts=1)
    worker.captures.enable(request)
    worker.collect(3)
    worker.captures.end()
    assert rollouts_in(request.path) == ["rollout 1", "rollout 2"]


def test_tr14_an_end_during_the_warm_up_says_that_there_is_no_trace(worker, request_for, caplog):
    request = request_for(num_rollouts=3, warmup_rollouts=2)
    hook = worker.captures.hook = lambda worker_idx, rollout: None
    worker.captures.enable(request)
    worker.collect(1)
    assert worker.captures.disable() is None
    assert "rollout worker 4 ended after 1 of 2 warm-up rollouts: there is no trace" in caplog.text
    assert not Path(request.path).exists()
    assert worker.captures.hook is hook


def test_a_capture_without_warm_up_begins_where_the_worker_says_that_a_rollout_ends(worker, request_for):
    """The worker decides when it is between two rollouts; until then nothing counts and nothing is recorded."""
    waiting = []
    worker.at_rollout_boundary = lambda callback, most_begun: waiting.append(callback)
    request = request_for(num_rollouts=2, warmup_rollouts=0)
    worker.captures.enable(request)
    worker.collect(2)
    waiting[0]()
    worker.collect(2)
    assert rollouts_in(request.path) == ["rollout 2", "rollout 3"]


def test_a_capture_that_ended_before_its_boundary_never_begins(worker, request_for):
    waiting = []
    worker.at_rollout_boundary = lambda callback, most_begun: waiting.append(callback)
    worker.captures.enable(request_for(num_rollouts=1, warmup_rollouts=0))
    assert worker.captures.disable() is None
    waiting[0]()
    assert not rollout_profiler.is_torch_capturing()


def test_two_captures_in_one_process_take_turns(worker, tmp_path):
    other = Worker()
    first, second = (ProfileRequest(path=str(tmp_path / f"{i}.json"), num_rollouts=2) for i in range(2))
    worker.captures.enable(first)
    other.captures.enable(second)
    for _ in range(5):
        worker.collect(1)
        other.collect(1)
    # The other worker runs in the same thread, so its rollouts are seen, too; what counts are the worker's own.
    assert Counter(names_in(first.path))[ROLLOUT_END] == Counter(names_in(second.path))[ROLLOUT_END] == 1
    assert "rollout 1" in rollouts_in(first.path)
    assert "rollout 2" in rollouts_in(second.path)


def test_a_worker_that_writes_its_trace_is_given_time(worker, request_for):
    written = []
    request = request_for(num_rollouts=1, warmup_rollouts=0, on_trace_ready=lambda _: written.extend(worker.beats))
    worker.captures.enable(request)
    worker.collect(1)
    assert written == [600.0], "told before it is written"
    assert worker.beats == [600.0, 0.0]


def test_a_worker_has_one_capture_at_a_time(worker, request_for):
    worker.captures.enable(request_for())
    with pytest.raises(ValueError, match=r"worker 4 is on already.*disable_profile"):
        worker.captures.enable(request_for())


@pytest.fixture
def running_cprofile():
    profile = cProfile.Profile()
    profile.enable()
    yield profile
    profile.disable()


def test_a_profiler_of_calls_that_runs_is_not_displaced(worker, tmp_path, running_cprofile):
    request = ProfileRequest(path=str(tmp_path / "trace.json"))
    with pytest.raises(ValueError, match=r"another profiler .* wait until that has ended, or use with_stack=False"):
        worker.captures.enable(request)
    assert worker.captures.current is None
    worker.captures.enable(replace(request, with_stack=False))
    worker.collect(3)
    running_cprofile.disable()
    assert any(getattr(entry.code, "co_name", "") == "collect" for entry in running_cprofile.getstats())
    assert Path(request.path).exists()


def test_a_profiler_of_calls_that_begins_during_warm_up_is_waited_for(worker, tmp_path):
    request = ProfileRequest(path=str(tmp_path / "trace.json"), num_rollouts=2)
    worker.captures.enable(request)
    with cProfile.Profile() as profile:
        worker.collect(2)
    assert any(getattr(entry.code, "co_name", "") == "collect" for entry in profile.getstats())
    worker.collect(2)
    assert rollouts_in(request.path) == ["rollout 3"]


def profile_oneself(number):
    """What an environment does that looks at its fourth rollout."""
    if number == 3:
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profile:
            torch.ones(2).sum()
        assert "aten::sum" in {row.key for row in profile.key_averages()}


@pytest.mark.parametrize("with_stack", [False, True])
def test_a_worker_that_profiles_itself_goes_on_and_there_is_no_trace(tmp_path, caplog, with_stack):
    worker = Worker(profile_oneself)
    hook = worker.captures.hook = lambda worker_idx, rollout: None
    request = ProfileRequest(path=str(tmp_path / "trace.json"), num_rollouts=10, with_stack=with_stack)
    worker.captures.enable(request)
    worker.collect(6)
    assert worker.captures.hook is hook
    assert worker.captures.current is None, "ended with the rollout in which another one began"
    assert "There is no trace of rollout worker 4: torch had to give way to another profiler of this" in caplog.text
    assert "(torch.profiler)" in caplog.text
    assert worker.captures.disable() is None
    assert not Path(request.path).exists()
    worker.captures.enable(replace(request, num_rollouts=2))
    worker.collect(2)
    assert rollouts_in(request.path) == ["rollout 7"]


def test_nothing_of_a_capture_is_in_the_trace_that_it_gave_way_to(request_for, tmp_path):
    profile = torch.profiler.profile(activities=[ProfilerActivity.CPU])

    def begin_and_end(number):
        if number == 3:
            profile.start()
        if number == 6:
            profile.stop()

    worker = Worker(begin_and_end)
    worker.captures.enable(request_for(num_rollouts=10))
    worker.collect(8)
    profile.export_chrome_trace(str(tmp_path / "theirs.json"))
    theirs = (tmp_path / "theirs.json").read_text()
    assert '"rollout 4"' in theirs
    assert ROLLOUT_END not in theirs
    assert f'"{rollout_profiler.METADATA_KEY}"' not in theirs


def test_a_profiler_of_a_thread_begins_while_a_capture_is_on(tmp_path, caplog):
    def profile_in_a_thread(number):
        if number == 3:
            thread = threading.Thread(target=profile_oneself, args=(3,))
            thread.start()
            thread.join()

    worker = Worker(profile_in_a_thread)
    request = ProfileRequest(path=str(tmp_path / "trace.json"), num_rollouts=10, with_stack=False)
    worker.captures.enable(request)
    worker.collect(6)
    assert "There is no trace of rollout worker 4: torch had to give way" in caplog.text
    profile_oneself(3)
    worker.captures.enable(replace(request, num_rollouts=2))
    worker.collect(2)
    assert rollouts_in(request.path) == ["rollout 7"]


def test_where_somebody_profiles_already_a_capture_is_refused(worker, request_for):
    with (
        torch.profiler.profile(activities=[ProfilerActivity.CPU]),
        pytest.raises(ValueError, match=r"torch\.profiler captures in this process already"),
    ):
        worker.captures.enable(request_for())
    assert worker.captures.current is None


def test_a_capture_that_cannot_begin_after_its_warm_up_fails_no_rollout(worker, request_for, monkeypatch, caplog):
    worker.captures.enable(request_for())
    monkeypatch.setattr(rollout_profiler.TorchProfile, "start", lambda self: 1 / 0)
    worker.collect(2)
    assert "The rollouts of worker 4 cannot be captured: division by zero" in caplog.text
    assert worker.captures.current is None


def test_on_trace_ready_gets_the_profiler_once_the_trace_is_there(worker, request_for):
    seen = []
    request = request_for(
        num_rollouts=1, warmup_rollouts=0, on_trace_ready=lambda p: seen.append((p, Path(request.path).exists()))
    )
    worker.captures.enable(request)
    worker.collect(1)
    ((profiler, was_there),) = seen
    assert isinstance(profiler, torch.profiler.profile)
    assert was_there
    assert any("aten::sum" in row.key for row in profiler.key_averages())


def test_the_options_of_the_profiler_reach_it(worker, tmp_path):
    request = ProfileRequest(
        path=str(tmp_path / "trace.json.gz"), num_rollouts=1, warmup_rollouts=0, record_shapes=True, profile_memory=True
    )
    worker.captures.enable(request)
    worker.collect(1)
    events = read_events(request.path)
    assert any(event.get("cat") == "python_function" for event in events), "with_stack is on unless told otherwise"
    assert any(event["name"] == "[memory]" for event in events)
    assert any("Input Dims" in event.get("args", {}) for event in events)


def test_the_trace_says_what_it_is_of(worker, request_for):
    request = request_for(num_rollouts=3, warmup_rollouts=1)
    worker.captures.enable(request)
    worker.collect(3)
    described = json.loads(Path(request.path).read_text())["sample_profiler"]
    assert described["worker"] == 4
    assert described["rollouts"] == [1, 2]
    assert described["activities"] == ["cpu"]
    assert described["process"] == os.getpid()


def test_tr15_a_trace_with_nothing_in_it_says_so_in_the_log_and_in_the_trace(worker, request_for, caplog):
    request = request_for(num_rollouts=1, warmup_rollouts=0)
    worker.captures.enable(request)
    worker.captures.tell(0)  # a rollout of numpy alone
    assert "nothing was recorded in 1 rollouts of rollout worker 4" in caplog.text
    assert "SAMPLE_PROFILER_PROFILING=1" in caplog.text
    document = json.loads(Path(request.path).read_text())
    assert document["sample_profiler"]["note"].startswith("nothing was recorded")
    assert any(event["name"].startswith("nothing was recorded") for event in document["traceEvents"])


def test_tr15_a_trace_with_something_in_it_has_no_such_note(worker, request_for, caplog):
    request = request_for(num_rollouts=1, warmup_rollouts=0)
    worker.captures.enable(request)
    worker.collect(1)
    assert "note" not in json.loads(Path(request.path).read_text())["sample_profiler"]
    assert "empty" not in caplog.text


def test_tr15_activities_of_which_none_can_be_recorded_are_an_error(worker, request_for, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"no activity can be recorded.*cuda.*activities=\['cpu'\]"):
        worker.captures.enable(request_for(activities=("cuda",)))
    assert worker.captures.current is None


def test_tr15_an_activity_that_is_missing_beside_another_is_told(worker, request_for, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    worker.captures.enable(request_for(activities=("cpu", "cuda")))
    assert "no cuda here: only cpu is recorded" in caplog.text


def test_a_trace_that_cannot_be_written_harms_no_rollout(worker, tmp_path, caplog):
    (tmp_path / "folder").write_text("is a file by now")
    hook = worker.captures.hook = lambda worker_idx, rollout: None
    request = ProfileRequest(path=str(tmp_path / "folder" / "trace.json"), num_rollouts=1, warmup_rollouts=0)
    worker.captures.enable(request)
    worker.collect(1)
    assert "A capture has not ended well" in caplog.text
    assert worker.captures.current is None
    assert worker.captures.hook is hook
    worker.captures.enable(request)
    with pytest.raises(OSError, match="folder"):
        worker.captures.disable()


def test_tr9_the_defaults(tmp_path):
    ((worker, request),) = plan_profiles(2, tmp_path, ProfileOptions()).items()
    assert worker == 0
    assert request == ProfileRequest(path=str(tmp_path / "profile" / "worker_0.json"))
    assert (request.num_rollouts, request.warmup_rollouts, request.activities) == (3, 1, None)
    assert (request.record_shapes, request.profile_memory, request.with_stack, request.with_flops) == (
        True, False, True, False,
    )  # fmt: skip


def plan_wished(num_workers, folder, workers=None, save_path=None, **options):
    return plan_profiles(num_workers, folder, ProfileOptions(**options), workers=workers, save_path=save_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_rollouts": 1}, r"num_rollouts=1 and warmup_rollouts=1.*num_rollouts > warmup_rollouts >= 0"),
        ({"num_rollouts": 0, "warmup_rollouts": 0}, "num_rollouts > warmup_rollouts >= 0"),
        ({"warmup_rollouts": -1}, "num_rollouts > warmup_rollouts >= 0"),
        ({"num_rollouts": 2.5}, "num_rollouts=2.5 is no whole number"),
        ({"warmup_rollouts": True}, "warmup_rollouts=True is no whole number"),
        ({"workers": [2]}, "no rollout worker 2: there are 2, counted from 0"),
        ({"workers": [-1]}, "no rollout worker -1"),
        ({"workers": ["0"]}, "no rollout worker '0'"),
        ({"workers": 0}, "workers=0 is no list"),
        ({"workers": []}, "workers is empty"),
        ({"activities": ["gpu"]}, "unknown activity 'gpu': there are 'cpu', 'cuda'"),
        ({"activities": [ProfilerActivity.XPU]}, "unknown activity"),
        ({"activities": []}, "activities is empty"),
        ({"save_path": "{worker}.json"}, r"save_path='\{worker\}.json' cannot be formatted.*worker_idx"),
        ({"save_path": "{.json"}, "cannot be formatted"),
        ({"save_path": "~nobody_here/x.json"}, "save_path='~nobody_here/x.json': there is no home directory"),
        ({"save_path": "trace.json", "workers": [0, 1]}, r"same file for 2 workers: put \{worker_idx\}"),
        ({"on_trace_ready": 3}, "on_trace_ready=3 cannot be called"),
    ],
)
def test_tr9_what_cannot_be_is_a_value_error_that_says_why(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        plan_wished(2, tmp_path / "run", **options)
    assert os.listdir(tmp_path) == [], "nothing was made"


def test_tr9_whole_numbers_of_numpy_are_whole_numbers(tmp_path):
    counts = {"num_rollouts": np.int64(5), "warmup_rollouts": np.int32(0)}
    requests = plan_wished(2, tmp_path, workers=np.arange(2), **counts)
    assert list(requests) == [0, 1]
    assert [(request.num_rollouts, request.warmup_rollouts) for request in requests.values()] == [(5, 0)] * 2
    assert {type(number) for number in (*requests, requests[0].num_rollouts, requests[0].warmup_rollouts)} == {int}


@pytest.mark.parametrize(
    "activities", [["cpu"], "cpu", (ProfilerActivity.CPU,), {ProfilerActivity.CPU, "cpu"}, iter(["CPU"])]
)
def test_tr9_activities_are_names_or_members_of_the_enumeration(tmp_path, activities):
    assert plan_profiles(1, tmp_path, ProfileOptions(activities=activities))[0].activities == ("cpu",)


def test_tr10_the_path_is_formatted_for_each_worker_and_its_folders_are_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    requests = plan_profiles(
        3, tmp_path, ProfileOptions(), workers=[2, 0, 2], save_path="./a{worker_idx}/worker_{worker_idx:02}.json"
    )
    paths = {worker: request.path for worker, request in requests.items()}
    assert paths == {2: str(tmp_path / "a2" / "worker_02.json"), 0: str(tmp_path / "a0" / "worker_00.json")}
    assert all(Path(path).parent.is_dir() for path in paths.values())


def test_tr10_the_default_is_in_the_run_folder_whatever_that_is_called(tmp_path):
    folder = tmp_path / "run_{seed}"
    requests = plan_profiles(2, folder, ProfileOptions(), workers=[0, 1])
    assert [request.path for request in requests.values()] == [
        str(folder / "profile" / f"worker_{worker}.json") for worker in range(2)
    ]
    assert (folder / "profile").is_dir()


def test_tr10_a_folder_is_no_trace(tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path} is a folder")):
        plan_profiles(1, tmp_path, ProfileOptions(), save_path=tmp_path)


def test_nothing_of_this_imports_torch_before_a_capture_is_asked_for(tmp_path):
    code = (
        "import sys\n"
        "from sample_profiler.profiling.captures.rollouts.captures import RolloutCaptures\n"
        "from sample_profiler.profiling.captures.rollouts.request import ProfileOptions, plan_profiles\n"
        "plan_profiles(1, __import__('pathlib').Path(sys.argv[1]), ProfileOptions(activities=['cpu']))\n"
        "print({'torch', 'numpy'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stderr


def test_the_log_tells_of_a_trace(worker, request_for, caplog):
    caplog.set_level(logging.INFO)
    request = request_for(num_rollouts=2)
    worker.captures.enable(request)
    assert worker.captures.current is not None
    worker.collect(2)
    assert f"Wrote the trace of 1 rollouts of rollout worker 4: {request.path}" in caplog.text
