"""What a Runner passes on: reports, figures and messages, to its records, observers and handlers."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import re
import time

import pytest

from sample_profiler.components.messages import (
    Counters,
    EpisodesFinished,
    EpisodeStatistics,
    TargetReached,
    TrainingStatistics,
)
from sample_profiler.config import parse_config
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.runner import Runner
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.child import Finished, SharedMemoryNames
from tests.run.runner_doubles import FakeChild, FakeProcesses, make_links, take_turn


def test_figures_of_this_process_are_fresh_when_the_steady_part_begins(make_runner):
    updates = []
    runner = make_runner(update_recording=lambda: updates.append(runner.counters.training_iterations[0]))
    status, *_ = runner.timers()
    for iterations in range(6):
        runner.counters.training_iterations[0] = iterations
        status.callback()
    assert updates == [3]


def test_what_components_without_a_record_file_have_measured_is_kept_as_it_comes_in(runner):
    timing = Timing("Batcher 0 profile").to_dict()
    runner.handle_reports([Heartbeat("Batcher_0"), Finished("Batcher_0", timing), Finished("Learner_0")])
    assert runner.unrecorded == {"Batcher_0": timing}
    assert [runner.ends.knows(name) for name in ("Batcher_0", "Learner_0", "Runner")] == [True, True, False]
    assert runner.loop.num_stops == 0


def test_log_records_of_components_are_logged_here_with_their_own_process(runner, caplog):
    record = logging.LogRecord("sample_profiler.storage", logging.WARNING, "", 1, "disk %s", ("full",), None)
    record.process = 4711
    runner.handle_reports([record])
    assert [(r.name, r.process, r.getMessage()) for r in caplog.records] == [
        ("sample_profiler.storage", 4711, "disk full")
    ]


def test_named_shared_memory_that_components_tell_of_is_handed_to_who_removes_it(runner):
    told = SharedMemoryNames(frozenset({"/dev/shm/ViZDoomSM1"}), pid=41)
    runner.handle_reports([told])
    assert runner.processes.noted == [told]


def test_a_metric_that_is_not_known_is_said_to_be_unknown(make_runner):
    runner = make_runner()
    runner.counters.metric[0] = 5.0
    runner.handle_reports([EpisodesFinished([EpisodeStatistics(0, 1.0, 8, {})])])
    assert math.isnan(runner.counters.metric[0])


def test_episodes_set_the_metric_that_the_best_policy_is_chosen_by(make_runner):
    runner = make_runner("--num_policies=2", "--save_best_metric=kills", "--stats_avg=2")
    runner.handle_reports([EpisodesFinished((EpisodeStatistics(1, 5.0, 8, {}),))])
    assert all(math.isnan(metric) for metric in runner.counters.metric)
    runner.handle_reports([EpisodesFinished((EpisodeStatistics(1, 5.0, 8, {"kills": 2.0}),))])
    assert all(math.isnan(metric) for metric in runner.counters.metric), "a single one says nothing"
    runner.handle_reports([EpisodesFinished((EpisodeStatistics(1, 5.0, 8, {"kills": 4.0}),))])
    assert math.isnan(runner.counters.metric[0])
    assert runner.counters.metric[1] == 3.0


def test_observers_see_the_run_about_every_second_and_summaries_at_their_interval(make_runner):
    runner = make_runner("--experiment_summaries_interval=7")
    status, *_, summaries = runner.timers()
    assert (status.interval_s, summaries.interval_s) == (1.0, 7.0)
    runner.counters.trained_frames[0] = 640
    runner.handle_reports([TrainingStatistics(0, 640, {"train/loss": 0.5})])
    status.callback()
    take_turn(runner)
    summaries.callback()
    take_turn(runner)
    assert runner.observer.kinds() == ["status", "summaries"]
    assert runner.observer.events[0][1].frames == {0: 640}
    assert runner.observer.events[1][1].training == {0: {"train/loss": 0.5}}


def test_returns_and_lengths_of_episodes_are_noted_with_every_look_at_the_run(make_runner):
    runner = make_runner("--num_policies=2")
    status, *_ = runner.timers()
    status.callback()
    for episode_return in (2.0, 4.0):
        runner.handle_reports([EpisodesFinished((EpisodeStatistics(1, episode_return, 8, {}),))])
        status.callback()
    session = runner.records.write_session({}, runner.records.end_steady_part(), is_clean=True)
    history = session.run["history"]
    noted = {name: [value for _, value in points] for name, points in history.items()}
    assert noted == {
        "episode_return_policy_1": [2.0, 3.0],
        "episode_return_policy_1_deviation": [0.0, 1.0],
        "episode_length_policy_1": [8.0, 8.0],
        "episode_length_policy_1_deviation": [0.0, 0.0],
    }


def test_the_runner_shows_that_it_goes_on_while_it_writes_figures(runner, monkeypatch):
    told = []

    @contextlib.contextmanager
    def beating():
        told.append("begins")
        yield
        told.append("ends")

    monkeypatch.setattr(runner.processes, "beating", beating)
    monkeypatch.setattr(runner.observer, "on_summaries", lambda _: told.append("summaries"))
    monkeypatch.setattr(runner.records, "write_timers", lambda: told.append("timers"))
    runner.finish()
    assert told == ["begins", "summaries", "timers", "ends"]


def test_observers_see_the_start_and_every_training_iteration_once(runner):
    status, *_ = runner.timers()
    runner.start()
    for iterations in (0, 2, 2, 3):
        runner.counters.training_iterations[0] = iterations
        status.callback()
        take_turn(runner)
    told = [event for event in runner.observer.events if event[0] != "status"]
    assert told == [("start", None), *(("training_step", number) for number in (1, 2, 3))]


def test_handlers_get_the_messages_of_their_type(runner):
    seen = []
    runner.register_message_handler(TrainingStatistics, lambda runner, message: seen.append((runner, message)))
    message = TrainingStatistics(0, 640, {"train/loss": 0.5})
    runner.handle_reports([EpisodesFinished(()), message])
    take_turn(runner)
    assert seen == [(runner, message)]


@pytest.mark.parametrize(
    ("message_type", "given"),
    [
        (EpisodeStatistics, "EpisodeStatistics"),
        ("EpisodesFinished", "'EpisodesFinished'"),
        (TargetReached(0), "TargetReached"),
    ],
)
def test_a_handler_of_what_is_no_message_is_an_error_that_lists_the_messages(runner, message_type, given):
    listed = "messages: EpisodesFinished, EvaluationFinished, TargetReached, TrainingStatistics"
    with pytest.raises(TypeError, match=rf"no messages {given}.*: use a class of sample_profiler.components.{listed}"):
        runner.register_message_handler(message_type, print)


@pytest.mark.parametrize("handler", [None, lambda message: None])
def test_a_handler_that_cannot_be_called_is_an_error(runner, handler):
    with pytest.raises(TypeError, match=r"the handler of TargetReached is .*: give a function\(runner, message\)"):
        runner.register_message_handler(TargetReached, handler)


def test_observers_see_the_last_figures_before_they_let_go(runner):
    runner.counters.trained_frames[0] = 1280
    runner.finish()
    kinds = runner.observer.kinds()
    assert kinds[-1] == "stop"
    assert kinds.count("stop") == 1
    assert "summaries" in kinds
    assert runner.observer.events[-2][1].frames == {0: 1280}
    assert runner.statistics.throughput.rate(10**6) > 0


class RaisingObserver(RunObserver):
    """Raises whenever it is told of one thing, and counts all it is told."""

    def __init__(self, event, error=None):
        self.error = error or ValueError(f"broken {event}")
        self.num_calls = dict.fromkeys(("on_init", "on_start", "on_training_step", "on_status", "on_summaries"), 0)
        self.num_calls["on_stop"] = 0
        for name in self.num_calls:
            setattr(self, name, functools.partial(self.take, name, name == event))

    def take(self, name, raises, *_):
        self.num_calls[name] += 1
        if raises:
            raise self.error


@pytest.mark.parametrize(
    "event", ["on_init", "on_start", "on_training_step", "on_status", "on_summaries", "on_stop"], ids=str
)
def test_what_an_observer_raises_fails_the_run_once_and_others_are_told_on(make_runner, event, caplog):
    broken = RaisingObserver(event)
    runner = make_runner(others=[broken])
    runner.start()
    runner.counters.training_iterations[0] = 1
    status, *_, summaries = runner.timers()
    for _ in range(2):
        for timer in (status, summaries):
            timer.callback()
            take_turn(runner)
    runner.finish()
    message = f"Observer RaisingObserver, {event}: ValueError: broken {event}"
    assert (runner.failure.component, runner.failure.message) == ("Runner", message)
    assert "Traceback" in runner.failure.traceback_text
    assert caplog.text.count("Runner failed") == 1
    assert broken.num_calls[event] == broken.num_calls["on_stop"] == 1
    told = runner.observer.kinds()
    assert (told[0], told.count("training_step"), told[-3:]) == ("start", 1, ["status", "summaries", "stop"])
    assert runner.loop.num_stops >= 1


def test_an_observer_that_exits_fails_the_run_like_one_that_raises(make_runner):
    """With status 0 a run that has not done what it was asked to would end well."""
    runner = make_runner(others=[RaisingObserver("on_start", SystemExit(0))])
    runner.start()
    assert runner.failure.message == "Observer RaisingObserver, on_start: SystemExit: 0"


def test_what_a_message_handler_raises_fails_the_run_once_and_others_get_the_message(runner, caplog):
    def fail(runner, message):
        raise ValueError("broken handler")

    seen = []
    runner.register_message_handler(TargetReached, fail)
    runner.register_message_handler(TargetReached, lambda runner, message: seen.append(message))
    runner.handle_reports([TargetReached(0), TargetReached(0)])
    runner.finish()
    assert len(seen) == 2
    assert re.fullmatch(r"Message handler .*fail, TargetReached: ValueError: broken handler", runner.failure.message)
    assert caplog.text.count("Runner failed") == 1


def record(folder, worker, seconds, free_slots):
    """Leave the record file of a worker behind."""
    now_ns = [1]
    timing = Timing(worker, clock_ns=lambda: now_ns[0])
    file = RecordFile(folder / f"{worker}.1.rec", process_name=worker)
    file.attach(timing, worker)
    with timing.add_time("env_step"):
        now_ns[0] += round(seconds * 1e9)
    file.set_gauge(f"{worker}/free_slots", free_slots)
    file.set_gauge("memory_mib", 100)
    file.close()


def test_ml13_ml16_what_processes_have_recorded_is_one_document_with_each_worker_and_their_merge(runner, tmp_path):
    folder = tmp_path / "my_run" / "profile" / "live"
    folder.mkdir(parents=True)
    for worker, seconds, free_slots in (("RolloutWorker_w0", 3.0, 6), ("RolloutWorker_w1", 10.0, 1)):
        record(folder, worker, seconds, free_slots)
    *_, summaries = runner.timers()
    summaries.callback()
    document = json.loads((tmp_path / "my_run" / "summary" / "my_run_timers.json").read_text())
    workers = document["children"]["workers"]["children"]
    assert set(workers) == {"RolloutWorker_w0", "RolloutWorker_w1"}
    seconds = [workers[f"RolloutWorker_w{index}"]["children"]["env_step"]["total"] for index in range(2)]
    assert seconds == [3.0, 10.0]
    assert document["children"]["workers_merged"]["children"]["RolloutWorker"]["children"]["env_step"]["total"] == 13.0
    assert document["gauges"]["RolloutWorker_w0/free_slots"]["value"] == 6.0
    assert document["gauges"]["free_slots"]["min"] == 1.0
    assert "memory_mib" in document["gauges"]


def test_a_document_that_cannot_be_written_does_not_end_the_run_and_others_still_get_their_figures(
    runner, tmp_path, caplog
):
    (tmp_path / "my_run").write_text("a file is in the way of the folder")
    runner.finish()
    assert "Cannot write the timers" in caplog.text
    assert runner.observer.kinds()[-1] == "stop"


def test_the_runner_listens_to_reports_and_ends_of_all_components(tmp_path):
    local, config = LocalReports(), parse_config(["--env=fake"])
    links = make_links(config, tmp_path, FakeProcesses(), [local])
    runner = Runner(config, Counters(1, 1), [1], tmp_path, [], links, time.monotonic())
    children = [FakeChild(name) for name in ("Learner_0", "Batcher_0")]
    for child in children:
        runner.watch(child)
    told, ends = [child.reports for child in children], [child.exit for child in children]
    assert [i.source for i in runner.inputs()][:-1] == [local, *told, *ends]
    assert not runner.guard.has_begun("Batcher_0")
    runner.handle_reports([Heartbeat("Batcher_0")])
    assert [runner.guard.has_begun(child.name) for child in children] == [False, True]
    assert runner.wait_block() == "wait_components"
    assert runner.name == "Runner"
