"""The Runner's decisions: when a run ends, why, and who is told."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import time

import pytest

from sample_profiler.components.messages import (
    Counters,
    EpisodesFinished,
    EpisodeStatistics,
    TargetReached,
    TrainingStatistics,
)
from sample_profiler.components.observers import RunObserver
from sample_profiler.components.runner import Runner
from sample_profiler.config import parse_config
from sample_profiler.errors import CommandError
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record_file import RecordFile
from sample_profiler.runtime.channels import LocalReports
from sample_profiler.runtime.child import Finished, SharedMemoryNames
from sample_profiler.runtime.commands import CommandResult
from sample_profiler.runtime.failure import Failure
from sample_profiler.runtime.heartbeats import Heartbeat


class Observer(RunObserver):
    def __init__(self):
        self.events = []

    def on_init(self, runner):
        self.runner = runner

    def on_start(self, runner):
        assert runner is self.runner
        self.events.append(("start", None))

    def on_training_step(self, runner, training_iteration):
        assert runner is self.runner
        self.events.append(("training_step", training_iteration))

    def on_status(self, status):
        self.events.append(("status", status))

    def on_summaries(self, status):
        self.events.append(("summaries", status))

    def on_stop(self, runner):
        assert runner is self.runner
        self.events.append(("stop", None))

    def kinds(self):
        return [kind for kind, _ in self.events]


class EndedChild:
    was_asked_to_end = False

    def __init__(self, name, *last_words):
        self.name = name
        self.reports = LocalReports()
        for report in last_words:
            self.reports.send(report)

    def describe_exit(self):
        return "was killed by signal 9 (SIGKILL)"


@pytest.fixture
def make_runner(tmp_path):
    def make(*flags, started_s_ago=0.0, others=()):
        config = parse_config(["--env=fake", "--num_workers=2", *flags])
        counters = Counters(2, config.sampling.num_policies)
        observer, folder = Observer(), tmp_path / "my_run"
        start_s, num_agents = time.monotonic() - started_s_ago, [1] * config.sampling.num_policies
        observers = [*others, observer]
        runner = Runner(config, counters, [LocalReports()], observers, start_s, folder, num_agents)
        runner.num_stops = 0

        def stop():
            runner.num_stops += 1

        runner.stop_loop = stop
        runner.counters, runner.observer = counters, observer
        runner.introduce()
        return runner

    return make


@pytest.fixture
def runner(make_runner):
    return make_runner()


FAILURE = Failure("RolloutWorker_w1", "EnvError: environment 3 broke", "Traceback ...\nEnvError: environment 3 broke\n")


def test_a_run_ends_when_all_policies_have_reached_the_target(make_runner):
    runner = make_runner("--num_policies=3")
    for policy in (1, 0, 1, 0):
        runner.handle_reports([TargetReached(policy)])
    assert (runner.num_stops, runner.reason) == (0, "")
    runner.handle_reports([TargetReached(2)])
    assert runner.num_stops == 1
    assert "as many frames as asked" in runner.reason
    assert runner.failure is None


def test_a_run_ends_after_the_seconds_asked_for(make_runner):
    runner = make_runner("--train_for_seconds=50", started_s_ago=30)
    status, *_ = runner.timers()
    status.callback()
    assert runner.num_stops == 0
    runner = make_runner("--train_for_seconds=50", started_s_ago=51)
    status, *_ = runner.timers()
    status.callback()
    assert runner.num_stops == 1
    assert "as many seconds as asked" in runner.reason
    assert runner.failure is None


def test_figures_of_this_process_are_fresh_when_the_steady_part_begins(runner):
    updates = []
    runner.update_recording = lambda: updates.append(runner.counters.training_iterations[0])
    status, *_ = runner.timers()
    for iterations in range(6):
        runner.counters.training_iterations[0] = iterations
        status.callback()
    assert updates == [3]


def test_the_first_failure_counts_and_all_are_in_the_log(runner, caplog):
    later = Failure("Learner_0", "BrokenPipeError: consequence", "")
    with caplog.at_level(logging.ERROR):
        runner.handle_reports([FAILURE, later])
    assert runner.failure is FAILURE
    assert runner.reason == "RolloutWorker_w1 failed"
    assert runner.num_stops >= 1
    assert [record.getMessage() for record in caplog.records] == [
        "RolloutWorker_w1 failed: EnvError: environment 3 broke\nTraceback ...\nEnvError: environment 3 broke",
        "Learner_0 failed: BrokenPipeError: consequence",
    ]


def test_a_failure_while_a_run_is_ending_is_a_failure_but_not_the_reason(runner):
    runner.handle_reports([TargetReached(0), FAILURE])
    assert runner.failure is FAILURE
    assert "as many frames as asked" in runner.reason


def test_a_process_that_ends_by_itself_is_a_failure(runner):
    runner._on_exits([EndedChild("Batcher_0")])
    assert runner.failure == Failure("Batcher_0", "its process was killed by signal 9 (SIGKILL)", "")
    assert runner.num_stops == 1


def test_what_a_process_said_before_its_end_is_the_cause(runner):
    runner._on_exits([EndedChild("RolloutWorker_w1", FAILURE, Finished("RolloutWorker_w1", {"name": "x"}))])
    assert runner.failure is FAILURE
    assert runner.timings == {"RolloutWorker_w1": {"name": "x"}}


def test_processes_may_end_once_the_run_is_ending(runner):
    runner.interrupt("interrupted by SIGINT")
    runner._on_exits([EndedChild("Batcher_0")])
    assert runner.failure is None
    assert runner.reason == "interrupted by SIGINT"


def end_by_request(runner, component):
    child = EndedChild(component)
    child.was_asked_to_end = True
    runner._on_exits([child])


def test_a_signal_to_all_processes_is_no_failure_though_it_reaches_this_one_last(runner, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: runner.interrupt("interrupted by SIGTERM"))
    end_by_request(runner, "Learner_0")
    assert (runner.failure, runner.reason) == (None, "interrupted by SIGTERM")


def test_a_signal_to_a_single_process_is_a_failure(runner, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    end_by_request(runner, "Learner_0")
    assert runner.failure.component == "Learner_0"


def test_of_two_processes_that_end_the_first_is_the_failure(runner):
    runner._on_exits([EndedChild("Batcher_0"), EndedChild("Learner_0")])
    assert runner.failure.component == "Batcher_0"


def test_the_first_reason_counts(runner):
    runner.interrupt("interrupted by SIGTERM")
    runner.handle_reports([TargetReached(0)])
    assert runner.reason == "interrupted by SIGTERM"


def test_timings_of_components_are_kept_as_they_come_in(runner):
    timing = Timing("Batcher 0 profile").to_dict()
    runner.handle_reports([Heartbeat("Batcher_0"), Finished("Batcher_0", timing)])
    assert runner.timings == {"Batcher_0": timing}
    assert runner.num_stops == 0


@pytest.mark.parametrize("is_over", [False, True])
def test_who_has_finished_and_does_not_end_is_watched_unless_the_run_is_over(make_runner, monkeypatch, caplog, is_over):
    runner = make_runner("--heartbeat_reporting_interval=20")
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    runner.guard.expect("Batcher_0")
    runner.handle_reports([Heartbeat("Batcher_0")])
    if is_over:
        runner.interrupt("interrupted by SIGTERM")
    runner.handle_reports([Finished("Batcher_0", {})])
    for _ in range(30):
        now_s += 1
        runner.guard.look()
    assert ("Batcher_0 has shown no sign of life" in caplog.text) != is_over


def test_log_records_of_components_are_logged_here_with_their_own_process(runner, caplog):
    record = logging.LogRecord("sample_profiler.storage", logging.WARNING, "", 1, "disk %s", ("full",), None)
    record.process = 4711
    runner.handle_reports([record])
    assert [(r.name, r.process, r.getMessage()) for r in caplog.records] == [
        ("sample_profiler.storage", 4711, "disk full")
    ]


def test_named_shared_memory_that_components_tell_of_is_handed_to_who_removes_it(runner):
    noted = []
    runner.note_shared_memory = noted.append
    told = SharedMemoryNames(frozenset({"/dev/shm/ViZDoomSM1"}), pid=41)
    runner.handle_reports([told])
    assert noted == [told]


def test_a_learner_that_did_not_finish_fails_the_run_where_it_had_learned_something(make_runner, caplog):
    runner = make_runner("--num_policies=2")
    runner.counters.training_iterations[1] = 1
    runner.miss_ends({"Learner_0": "it was killed"})
    assert runner.failure is None, "it was still starting: nothing is lost"
    assert "Learner_0: it was killed" in caplog.text
    assert "is lost" not in caplog.text
    runner.miss_ends({"InferenceWorker_p0-w1": "it was killed"})
    assert runner.failure is None
    runner.miss_ends({"Learner_1": "it was killed"})
    message = "it was killed; what it had learned since its last checkpoint is lost"
    assert runner.failure == Failure("Learner_1", message, "")


def test_many_components_that_share_a_fate_share_a_line(runner, caplog):
    runner.miss_ends(
        {
            "Batcher_0": "it was killed",
            **{f"RolloutWorker_w{i}": "it did not end" for i in range(9)},
            "X": "it was killed",
        }
    )
    assert [record.getMessage() for record in caplog.records] == [
        "Batcher_0, X, each: it was killed",
        "RolloutWorker_w0, RolloutWorker_w1, RolloutWorker_w2, RolloutWorker_w3 and 5 others, each: it did not end",
    ]


def test_nothing_is_lost_with_a_learner_that_had_finished_before_it_was_killed(runner):
    runner.counters.training_iterations[0] = 1
    runner.handle_reports([Finished("Learner_0", {})])
    runner.miss_ends({"Learner_0": "it was killed"})
    assert runner.failure is None


def test_the_end_of_who_has_finished_or_failed_is_known(runner):
    runner.handle_reports([Finished("Batcher_0", {}), FAILURE])
    runner._on_exits([EndedChild("Learner_0")])
    known = [runner.knows_end_of(name) for name in ("Batcher_0", FAILURE.component, "Learner_0")]
    assert known == [True, True, False], "the Learner's end, with the run about to end, is looked at in the end"


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
    status, _, summaries = runner.timers()
    assert (status.interval_s, summaries.interval_s) == (1.0, 7.0)
    runner.counters.trained_frames[0] = 640
    runner.handle_reports([TrainingStatistics(0, 640, {"train/loss": 0.5})])
    status.callback()
    summaries.callback()
    assert runner.observer.kinds() == ["status", "summaries"]
    assert runner.observer.events[0][1].frames == {0: 640}
    assert runner.observer.events[1][1].training == {0: {"train/loss": 0.5}}


def test_the_runner_shows_that_it_goes_on_while_it_writes_figures(runner, monkeypatch):
    told = []

    @contextlib.contextmanager
    def beating():
        told.append("begins")
        yield
        told.append("ends")

    runner.beating = beating
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
    told = [event for event in runner.observer.events if event[0] != "status"]
    assert told == [("start", None), *(("training_step", number) for number in (1, 2, 3))]


def test_handlers_get_the_messages_of_their_type(runner):
    seen = []
    runner.register_message_handler(TrainingStatistics, lambda runner, message: seen.append((runner, message)))
    message = TrainingStatistics(0, 640, {"train/loss": 0.5})
    runner.handle_reports([EpisodesFinished(()), message])
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


def test_a_handler_that_cannot_be_called_is_an_error(runner):
    with pytest.raises(TypeError, match=r"the handler of TargetReached is None: give a function\(runner, message\)"):
        runner.register_message_handler(TargetReached, None)


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

    def __init__(self, event):
        self.num_calls = dict.fromkeys(("on_init", "on_start", "on_training_step", "on_status", "on_summaries"), 0)
        self.num_calls["on_stop"] = 0
        for name in self.num_calls:
            setattr(self, name, functools.partial(self.take, name, name == event))

    def take(self, name, raises, *_):
        self.num_calls[name] += 1
        if raises:
            raise ValueError(f"broken {name}")


@pytest.mark.parametrize(
    "event", ["on_init", "on_start", "on_training_step", "on_status", "on_summaries", "on_stop"], ids=str
)
def test_what_an_observer_raises_fails_the_run_once_and_others_are_told_on(make_runner, event, caplog):
    broken = RaisingObserver(event)
    runner = make_runner(others=[broken])
    runner.start()
    runner.counters.training_iterations[0] = 1
    status, _, summaries = runner.timers()
    for _ in range(2):
        status.callback()
        summaries.callback()
    runner.finish()
    assert (runner.failure.component, runner.failure.message) == ("Runner", f"ValueError: broken {event}")
    assert "Traceback" in runner.failure.traceback_text
    assert caplog.text.count("Runner failed") == 1
    assert broken.num_calls[event] == broken.num_calls["on_stop"] == 1
    expected = ["start", "training_step", *["status", "summaries"] * 3, "stop"]
    assert runner.observer.kinds() == expected
    assert runner.num_stops >= 1


def test_what_a_message_handler_raises_fails_the_run_once_and_others_get_the_message(runner, caplog):
    def fail(runner, message):
        raise ValueError("broken handler")

    seen = []
    runner.register_message_handler(TargetReached, fail)
    runner.register_message_handler(TargetReached, lambda runner, message: seen.append(message))
    runner.handle_reports([TargetReached(0), TargetReached(0)])
    assert len(seen) == 2
    assert runner.failure.message == "ValueError: broken handler"
    assert caplog.text.count("Runner failed") == 1


def test_components_that_are_silent_for_too_long_are_told_and_told_again(make_runner, monkeypatch, caplog):
    runner = make_runner("--heartbeat_reporting_interval=20")
    status, *_ = runner.timers()
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    def warnings_after(seconds, *heard):
        nonlocal now_s
        caplog.clear()
        for second in range(seconds):
            now_s += 1
            if second == seconds - 1:
                runner.handle_reports([Heartbeat(component) for component in heard])
            status.callback()
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    assert warnings_after(100, "RolloutWorker_w0") == [], "nobody is expected to give signs of life"
    for component in ("Learner_0", "Batcher_0"):
        runner.guard.expect(component)
    assert warnings_after(1, "Learner_0", "Batcher_0") == []
    assert warnings_after(15, "Batcher_0") == []
    assert warnings_after(5) == ["Learner_0 has shown no sign of life for 20 s"]
    assert warnings_after(1, "Batcher_0") == []
    assert warnings_after(19, "Batcher_0") == ["Learner_0 has shown no sign of life for 40 s"]
    assert warnings_after(1, "Learner_0", "Batcher_0") == []
    assert warnings_after(19) == []
    assert runner.num_stops == 0, "it may only be slow"


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
    runner = Runner(config, Counters(1, 1), [local], [], time.monotonic(), tmp_path, [1])
    children = [FakeChild(name) for name in ("Learner_0", "Batcher_0")]
    for child in children:
        runner.watch(child)
    told, ends = [child.reports for child in children], [child.exit for child in children]
    assert [i.source for i in runner.inputs()] == [local, *told, *ends]
    assert not runner.guard.has_begun("Batcher_0")
    runner.handle_reports([Heartbeat("Batcher_0")])
    assert [runner.guard.has_begun(child.name) for child in children] == [False, True]
    assert runner.wait_block() == "wait_components"
    assert runner.name == "Runner"


class FakeChild(EndedChild):
    """A process that can be replaced."""

    def __init__(self, name, pid=1, *last_words):
        super().__init__(name, *last_words)
        self.pid, self.exit, self.commands, self.num_kills = pid, object(), [], 0
        self.lives = True

    def send_command(self, command):
        self.commands.append(command)

    def is_alive(self):
        return self.lives

    def kill(self):
        self.num_kills += 1


class FakeRescue:
    """Replaces what it is told to, as long as nobody objects."""

    def __init__(self, objection=None, error=None):
        self.replacements = self
        self.objection, self.error = objection, error
        self.noted, self.num_recent = [], 1
        self.children = {}

    def covers(self, component):
        return component.startswith("RolloutWorker")

    def find_objection(self, failure):
        return self.objection

    def note(self, failure):
        self.noted.append(failure)

    def replace(self, child, asked, names):
        if self.error:
            raise self.error
        return FakeChild(child.name, child.pid + 1)

    def find(self, component):
        return self.children.get(component)

    def locate(self, component):
        return ""

    def examine(self, child, silent_s):
        return Failure(child.name, f"silent for {silent_s:.0f} s", "stacks")


@pytest.fixture
def with_rescue(make_runner):
    def make(*flags, **options):
        runner = make_runner(*flags)
        runner.guard.rescue = FakeRescue(**options)
        runner.num_refreshes = 0

        def refresh():
            runner.num_refreshes += 1

        runner.refresh_loop = refresh
        return runner

    return make


def test_a_lost_worker_is_replaced_and_listened_to(with_rescue, caplog):
    runner = with_rescue()
    lost = FakeChild("RolloutWorker_w1", 41)
    runner._reports.append(lost.reports)
    runner._exits.append(lost.exit)
    runner.crew.members = [lost]
    runner._on_exits([lost])
    assert (runner.failure, runner.reason, runner.num_stops, runner.num_refreshes) == (None, "", 0, 1)
    assert [member.pid for member in runner.crew.members] == [42]
    sources = [entry.source for entry in runner.inputs()]
    assert lost.reports not in sources and lost.exit not in sources
    assert runner.crew.members[0].reports in sources and runner.crew.members[0].exit in sources
    assert "killed by signal 9 (SIGKILL). Process 42 takes its place (number 1 of at most 10 an hour)" in caplog.text


def test_the_recordings_of_lost_workers_do_not_become_more_and_more(with_rescue, monkeypatch):
    runner, added_up = with_rescue(), []
    monkeypatch.setattr(runner.records, "add_up_lost", added_up.append)
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert added_up == ["RolloutWorker_w1"]


def test_a_worker_has_not_finished_because_the_one_before_it_has(with_rescue):
    runner = with_rescue()
    runner._on_exits([FakeChild("RolloutWorker_w1", 1, FAILURE, Finished("RolloutWorker_w1", {"name": "x"}))])
    assert runner.failure is None
    assert not runner.knows_end_of("RolloutWorker_w1")
    runner.handle_reports([Finished("RolloutWorker_w1", {"name": "y"})])
    assert runner.timings == {"RolloutWorker_w1": {"name": "y"}}


def test_what_a_worker_raised_is_logged_at_once_and_is_why_it_is_lost(with_rescue, caplog):
    runner = with_rescue()
    runner.handle_reports([FAILURE])
    assert runner.failure is None, "it is replaced when its process has ended"
    assert "EnvError: environment 3 broke\nTraceback" in caplog.text
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert runner.guard.rescue.noted == [FAILURE]


def test_a_worker_that_may_not_be_replaced_ends_the_run_and_it_is_said_why(with_rescue):
    runner = with_rescue(objection="too many")
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert runner.failure.message == "its process was killed by signal 9 (SIGKILL) (it is not replaced: too many)"
    assert runner.num_stops == 1


def test_a_worker_that_cannot_be_replaced_ends_the_run(with_rescue):
    runner = with_rescue(error=CommandError("Batcher_0 did not answer"))
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert "it cannot be replaced: Batcher_0 did not answer" in runner.failure.message


def test_a_worker_that_is_not_replaced_since_the_run_ends_meanwhile_is_no_failure(with_rescue, caplog):
    runner = with_rescue()

    def end_meanwhile(*_):
        runner.interrupt("interrupted by SIGTERM")
        raise CommandError("Batcher_0 cannot answer 'forget_worker' any more: interrupted by SIGTERM")

    runner.guard.rescue.replace = end_meanwhile
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert (runner.failure, runner.reason) == (None, "interrupted by SIGTERM")
    assert "RolloutWorker_w1 is lost while the run ends: its process was killed by signal 9" in caplog.text


def test_the_runner_shows_that_it_goes_on_while_it_waits_for_an_answer(make_runner):
    runner = make_runner()
    beats, child = [], FakeChild("InferenceWorker_p0-w0")

    def beat():
        beats.append(None)
        if len(beats) == 5:
            (command,) = child.commands
            child.reports.send(CommandResult(command.number, child.name, 7, None))

    runner.beat = beat
    runner._reports.append(child.reports)
    runner.crew.members = [child]
    assert runner.call("forget_worker") == {child.name: 7}
    assert len(beats) >= 5


def test_who_hangs_while_a_worker_is_replaced_is_looked_into_and_ends_the_run(with_rescue, monkeypatch):
    runner = with_rescue("--hang_timeout=60")
    stuck = runner.guard.rescue.children["InferenceWorker_p0-w0"] = FakeChild("InferenceWorker_p0-w0")
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    def beat():
        nonlocal now_s
        now_s += 0.5
        stuck.lives = not stuck.num_kills

    runner.beat = beat
    runner.crew.members = [stuck]
    runner.guard.expect(stuck.name)
    runner.handle_reports([Heartbeat(stuck.name)])
    runner.guard.rescue.replace = lambda _, asked, names: asked.call("forget_worker", (1,), names, 240.0)
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert runner.failure == Failure(stuck.name, "silent for 60 s", "stacks")


def test_who_waits_for_components_looks_after_them_once_a_second(with_rescue, monkeypatch):
    runner = with_rescue()
    now_s, looks = time.monotonic(), []
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    look = runner.guard.look
    monkeypatch.setattr(runner.guard, "look", lambda: looks.append(look()))
    for _ in range(20):
        runner.take_reports()
        now_s += 0.25
    assert len(looks) == 5
    runner.interrupt("enough")
    now_s += 10
    runner.take_reports()
    assert len(looks) == 5, "nobody has to give signs of life any more"


def test_the_loss_of_any_other_component_ends_the_run(with_rescue):
    runner = with_rescue()
    runner.handle_reports([Failure("Learner_0", "ValueError: x", "Traceback")])
    assert runner.failure.component == "Learner_0"
    runner = with_rescue()
    runner._on_exits([FakeChild("Batcher_0")])
    assert runner.failure.component == "Batcher_0"


def test_a_component_that_hangs_is_looked_into_and_ended_once(with_rescue, monkeypatch, caplog):
    runner = with_rescue("--hang_timeout=5")
    status, *_ = runner.timers()
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    child = runner.guard.rescue.children["Learner_0"] = FakeChild("Learner_0")
    runner.guard.expect("Learner_0")
    runner.handle_reports([Heartbeat("Learner_0")])
    for _ in range(8):
        now_s += 1
        status.callback()
    assert child.num_kills >= 1
    assert caplog.text.count("Learner_0 failed: silent for 5 s\nstacks") == 1
    assert runner.failure is None
    runner._on_exits([child])
    assert runner.failure == Failure("Learner_0", "silent for 5 s", "stacks")


def test_a_worker_that_has_failed_and_does_not_end_is_ended(with_rescue, monkeypatch):
    runner = with_rescue()
    status, *_ = runner.timers()
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    child = runner.guard.rescue.children["RolloutWorker_w1"] = FakeChild("RolloutWorker_w1")
    runner.handle_reports([FAILURE])
    for expected in (0, 0, 0, 1):
        now_s += 1
        status.callback()
        assert child.num_kills == expected
