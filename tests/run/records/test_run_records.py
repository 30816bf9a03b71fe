"""What the Runner does about record files while the run goes on."""

from __future__ import annotations

import errno
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sample_profiler import timers
from sample_profiler.analysis.trends.readings import read_readings
from sample_profiler.config import parse_config
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session import session as session_module
from sample_profiler.profiling.session.session import Session, read_live, read_session
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.run.records.run_records import RunRecords
from sample_profiler.run_folder import RunFolder
from tests.analysis.made_runs import make_record


def test_a_timeline_whose_window_never_began_is_missed_aloud(tmp_path, caplog):
    records = RunRecords(tmp_path, parse_config(["--env=e", "--timeline_seconds=100:5"]).profiling)
    records.follow_timeline()
    assert not caplog.messages
    records.end_timeline()
    assert "the run ended before second 100" in caplog.text


def test_the_steady_part_begins_with_the_figures_of_its_first_moment(tmp_path):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    file = RecordFile(RunFolder(tmp_path).live().record("Runner", 1), process_name="Runner", ring_bytes=0)
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    file.set_gauge("frames", 0.0)
    updates = []

    def update():
        updates.append(1)
        file.set_gauge("frames", 1000.0)

    records.begin_steady_part(update)
    records.begin_steady_part(update)
    assert updates == [1]
    file.set_gauge("frames", 1000.0)
    assert records.end_steady_part().processes[0].gauges["frames"].value == 0.0, "all frames came before it"
    file.close()


def test_the_latest_point_of_a_figure_is_known_and_of_others_there_is_none(tmp_path):
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    assert records.latest("memory_mib") is None
    for memory_mib in (500.0, 750.0):
        records.note({"memory_mib": memory_mib})
    assert records.latest("memory_mib") == 750.0 and records.latest("fps") is None


def test_ml6_the_root_of_a_run_s_timers_has_been_open_since_the_run_began(tmp_path, monkeypatch):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    now_s = time.monotonic()
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    timing = Timing("Learner 0 profile")
    file = RecordFile(RunFolder(tmp_path).live().record("Learner_0", 1), process_name="Learner_0", ring_bytes=0)
    file.attach(timing, "Learner_0")
    with timing.add_time("train"):
        pass
    file.flush()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 100)
    records.write_timers()
    file.close()
    document = json.loads((tmp_path / "summary" / f"{tmp_path.name}_timers.json").read_text())
    assert (document["name"], document["count"]) == ("root", 1)
    assert document["total"] == pytest.approx(100, abs=1)
    parts_s = sum(child["total"] for child in document["children"].values())
    assert document["self"] == pytest.approx(document["total"] - parts_s)


@pytest.fixture
def _fresh_timers():
    timers.reset_timers()
    yield
    timers.reset_timers()


@pytest.mark.usefixtures("_fresh_timers")
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_run_without_record_files_has_the_timers_of_its_process_since_it_began(tmp_path, is_reset):
    with timers.hierarchical_timer("before"):
        time.sleep(0.01)
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    if is_reset:
        timers.reset_timers()
    with timers.hierarchical_timer("within"):
        pass
    records.write_timers()
    document = json.loads((tmp_path / "summary" / f"{tmp_path.name}_timers.json").read_text())
    assert (list(document["children"]), document["count"]) == (["within"], 1)


@pytest.mark.usefixtures("_fresh_timers")
@pytest.mark.parametrize("is_given", [False, True])
def test_ml9_notes_from_before_a_run_outlive_an_environment_that_resets_the_timers(tmp_path, monkeypatch, is_given):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    for key in ("experiment", "stage"):
        timers.add_metadata(key, "first")
    before = timers.get_timer_tree()["metadata"]
    if is_given:  # from before an environment was tried out
        timers.reset_timers()
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling, before if is_given else None)
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 100)
    timers.reset_timers()
    timers.add_metadata("stage", "second")
    records.write_timers()
    metadata = json.loads((tmp_path / "summary" / f"{tmp_path.name}_timers.json").read_text())["metadata"]
    assert (metadata["experiment"], metadata["stage"]) == ("first", "second")
    assert metadata["start_time_seconds"] == before["start_time_seconds"]
    assert int(metadata["end_time_seconds"]) >= int(before["start_time_seconds"]) + 100


def test_figures_over_time_can_be_read_while_the_run_goes_on_and_are_in_its_session(tmp_path):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    file = RecordFile(RunFolder(tmp_path).live().record("Runner", 1), process_name="Runner", ring_bytes=0)
    file.attach(Timing("Runner profile"), "Runner")
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    for fps in (10.0, 30.0):
        file.set_gauge("Runner/fps", fps)
        file.flush()
        records.write_timers()
    run = read_live(tmp_path).run
    assert [value for _, value in run["history"]["fps"]] == [10.0, 30.0]
    assert run["history_start_s"] == pytest.approx(time.time(), abs=60)
    file.close()
    session = records.write_session({"reason": "enough"}, records.end_steady_part(), is_clean=True)
    assert not RunFolder(tmp_path).history.exists()
    saved = read_session(tmp_path).run
    assert saved["history_start_s"] == session.run["history_start_s"] == run["history_start_s"]
    assert [value for _, value in saved["history"]["fps"]] == [10.0, 30.0]
    records.write_timers()
    RunRecords(tmp_path, parse_config(["--env=e"]).profiling).set_earlier_aside()
    assert "history" not in read_live(tmp_path).run, "of an earlier run"


def test_readings_over_time_are_in_the_session_and_are_taken_as_often_as_they_may_cost(tmp_path, monkeypatch):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    timing = Timing("Learner 0 profile")
    file = RecordFile(RunFolder(tmp_path).live().record("Learner_0", 1), process_name="Learner_0", ring_bytes=0)
    file.attach(timing, "Learner_0")
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    now_s = time.time()
    for second in range(1, 5):
        with timing.add_time("main_loop"), timing.add_time("train"):
            time.sleep(0.01)
        file.set_gauge("cpu_s", float(second))
        file.flush()
        monkeypatch.setattr(time, "time", lambda second=second: now_s + second)
        records._next_reading_s = 0.0
        records.take_reading({"frames": 100.0 * second})
        records.take_reading({"frames": 0.0})  # a moment later: that is left out
    file.close()
    session = records.write_session({"reason": "enough"}, records.end_steady_part(), is_clean=True)
    readings = read_readings(session)
    assert readings.gauges[""]["frames"].tolist() == [100.0, 200.0, 300.0, 400.0]
    assert readings.gauges["Learner_0"]["cpu_s"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert readings.blocks["Learner_0"]["train"].passes.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert read_session(tmp_path).run["readings"] == session.run["readings"]


def test_the_mean_batch_over_time_is_that_of_the_batches_in_between(tmp_path):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    name = "InferenceWorker_p0-w0"
    file = RecordFile(RunFolder(tmp_path).live().record("Inference", 1), process_name=name, ring_bytes=0)
    file.attach(Timing("Inference profile"), name)
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    for batches, rows in ((1000, 2000), (1010, 2160), (1010, 2160), (1020, 2200)):
        values = {"batch_rows": rows / batches, "inference_batches": batches, "inference_rows": rows}
        for gauge, value in values.items():
            file.set_gauge(f"{name}/{gauge}", value)
        file.flush()
        records.write_timers()
    file.close()
    points = read_live(tmp_path).run["history"]["batch_rows"]
    assert [value for _, value in points] == [2.0, 16.0, 4.0], "without a batch there is no mean"


def test_gauges_that_an_environment_names_like_ours_are_in_no_figure_over_time(tmp_path):
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    gauges = {"Runner/fps": 100.0, "fps": 60_000.0, "my/fps": 70_000.0, "Batcher_0/my/fps": 80_000.0, "memory_mib": 5.0}
    record = make_record({"Runner": TreeNode(), "Batcher_0": TreeNode()}, name="Serial", **gauges)
    records._note(Session(0.0, processes=[record]))
    assert {name: value for name, ((_, value),) in records._history.points().items()} == {
        "fps": 100.0,
        "memory_mib": 5.0,
    }


def test_processes_that_were_lost_are_in_no_figure_over_time(tmp_path):
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)

    def worker(state, index=0, free_slots=1.0):
        gauges = {f"RolloutWorker_w{index}/free_slots": free_slots, "memory_mib": 100.0}
        record = make_record({f"RolloutWorker_w{index}": TreeNode()}, name=f"RolloutWorker_w{index}", **gauges)
        return replace(record, state=state)

    processes = [worker("ended"), worker("gone", 1), worker("alive", free_slots=4.0), worker("stopped", 2)]
    records._note(Session(0.0, processes=processes))
    assert {name: value for name, ((_, value),) in records._history.points().items()} == {
        "free_slots": 5.0,
        "memory_mib": 200.0,
    }


def test_at_the_end_processes_that_have_ended_in_order_count_as_before(tmp_path):
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    records._note(Session(0.0, processes=[make_record({"Runner": TreeNode()}, name="Runner", memory_mib=7.0)]))
    assert [value for _, value in records._history.points()["memory_mib"]] == [7.0]


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def earlier(tmp_path):
    """The folder of a run that has trained and was killed then."""
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    for name in ("profile/live/Runner.1.rec", "profile/steady.json", "profile/history.json", "profile/session.json"):
        (tmp_path / name).write_text("of the earlier run")
    (tmp_path / "checkpoint_p0").mkdir()
    (tmp_path / "checkpoint_p0" / "checkpoint_000000007_70.pth").touch()
    return tmp_path


@pytest.mark.parametrize("has_trained", [False, True])
def test_the_flags_of_the_earlier_run_are_let_go_of_once_this_one_has_trained(tmp_path, has_trained):
    RunFolder(tmp_path).earlier_config.write_text("{}")
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    records.set_earlier_aside()
    if has_trained:
        records.replace_earlier()
    assert RunFolder(tmp_path).earlier_config.exists() != has_trained


def test_the_folder_is_asked_for_an_earlier_run_once(tmp_path, monkeypatch):
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    records.set_earlier_aside()
    records.replace_earlier()
    monkeypatch.setattr(Path, "unlink", lambda *_: pytest.fail("again"))
    records.replace_earlier()


def begin(folder, *flags):
    """Do what a run does before it trains."""
    records = RunRecords(folder, parse_config(["--env=e", *flags]).profiling)
    records.set_earlier_aside()
    RunFolder(folder).live().path.mkdir(exist_ok=True)
    RecordFile(RunFolder(folder).live().record("Runner", 2), process_name="Runner", ring_bytes=0).close()
    return records


def end(records):
    steady = records.end_steady_part()
    records.write_timers()
    return records.write_session({"reason": "it failed"}, steady, is_clean=False)


def test_a_run_that_trains_nothing_leaves_what_the_one_before_has_recorded(earlier):
    before = contents(earlier)
    records = begin(earlier)
    assert [path.name for path in RunFolder(earlier).live().records()] == ["Runner.2.rec"], "it sees its own alone"
    assert not RunFolder(earlier).steady.exists()
    assert not RunFolder(earlier).history.exists()
    session = end(records)
    assert records.keeps_earlier
    assert [record.name for record in session.processes] == ["Runner"], "its own"
    assert contents(earlier) == before


def test_recordings_that_are_put_back_twice_stay(earlier):
    before = contents(earlier)
    records = begin(earlier)
    records.put_earlier_back()
    records.put_earlier_back()
    assert contents(earlier) == before


def test_what_an_earlier_run_has_recorded_outlives_a_run_that_is_killed_before_it_trains(earlier):
    before = contents(earlier)
    begin(earlier)
    end(begin(earlier))
    assert contents(earlier) == before


def test_what_a_run_that_ended_well_has_recorded_outlives_one_that_is_killed_before_it_trains(earlier):
    for path in (RunFolder(earlier).live().record("Runner", 1), RunFolder(earlier).history):
        path.unlink()
    RunFolder(earlier).live().path.rmdir()
    before = contents(earlier)
    begin(earlier)
    end(begin(earlier))
    assert contents(earlier) == before


def test_a_report_of_a_run_that_was_killed_before_it_trained_is_of_that_alone(earlier):
    (earlier / "profile" / "steady.json").write_text("no session")  # reading it would fail
    (earlier / "profile" / "history.json").write_text('{"history": {"fps": [[0.0, 1.0]]}}')
    begin(earlier)
    assert "history" not in load_report(earlier).session.run


def test_a_window_that_ends_before_anything_is_trained_does_not_cost_the_earlier_timeline(earlier, caplog):
    path = earlier / "profile" / "timeline.json"
    path.write_text("of the earlier run")
    records = begin(earlier, "--timeline_seconds=0:0.001")
    for _ in range(3):
        records.follow_timeline()
        time.sleep(0.002)
    assert "There is no timeline: nothing was trained before its window ended" in caplog.text
    end(records)
    assert path.read_text() == "of the earlier run"


def test_a_run_that_trains_takes_the_place_of_the_one_before(earlier):
    records = begin(earlier)
    records.replace_earlier()
    assert not records.keeps_earlier
    assert not RunFolder(earlier).steady.exists()
    assert not RunFolder(earlier).history.exists()
    session = end(records)
    assert [path.name for path in RunFolder(earlier).live().path.iterdir()] == ["Runner.2.rec"]
    assert read_session(earlier).run["reason"] == session.run["reason"] == "it failed"
    assert RunFolder(earlier).steady.exists()


def test_a_run_that_had_learned_nothing_is_not_kept(earlier):
    (earlier / "checkpoint_p0" / "checkpoint_000000007_70.pth").rename(
        earlier / "checkpoint_p0" / "checkpoint_000000000_0.pth"
    )
    end(begin(earlier))
    assert [path.name for path in RunFolder(earlier).live().path.iterdir()] == ["Runner.2.rec"]
    assert read_session(earlier).run["reason"] == "it failed"


def test_recordings_that_cannot_be_listed_are_a_warning_now_and_then_and_end_nothing(tmp_path, monkeypatch, caplog):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    RecordFile(RunFolder(tmp_path).live().record("Runner", 1), process_name="Runner", ring_bytes=0).close()
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)

    def fail(*_):
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as broken:
        broken.setattr(session_module, "_read_live", fail)
        for _ in range(3):
            records.begin_steady_part(lambda: None)
            records.write_timers()
        steady = records.end_steady_part()
        session = records.write_session({"reason": "enough"}, steady, is_clean=True)
    assert caplog.text.count("Stale file handle") == 1
    assert (steady.processes, session.run["reason"]) == ([], "enough")
    assert RunFolder(tmp_path).live().path.exists(), "they may be read one day"
    assert read_session(tmp_path).run["reason"] == "enough"
