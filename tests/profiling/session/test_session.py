"""Sessions: saved, loaded, merged, and found in the folder of a run."""

from __future__ import annotations

import errno
import json
import math
import os
import time
from pathlib import Path

import pytest
from record_writer import RecordWriter, S, find_dead_pid

from sample_profiler.errors import SessionError
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.events import Event
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session import documents as session_documents
from sample_profiler.profiling.session.session import Session, read_live, read_session
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.run_folder import RunFolder


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "profile" / "live").mkdir(parents=True)
    return tmp_path


def write_record(run_dir, name="Learner_0", *, work_s=2, end_ns=None, num_events=64, events=(), **options):
    path = run_dir / "profile" / "live" / f"{name}.{options.get('pid') or os.getpid()}.rec"
    metadata = {"process_name": name, "host": os.uname().nodename}
    writer = RecordWriter(path, metadata=metadata, num_events=num_events, **options)
    writer.root(name, f"{name} profile")
    writer.node(0, "train", passes=[work_s * S], last_end_ns=10 * S, device=(S, 1, 2))
    writer.node(0, "mean", kind=2, window=3, passes=[1, 2, 3, 4], recent=[1, 2, 3, 4])
    writer.node(1, "wait_batcher", open_ns=[9 * S])
    writer.gauge("run_delay_s", 0.5)
    for event in events:
        writer.event(*event)
    writer.close(end_ns)
    return path


def make_session(run_dir, **options):
    write_record(run_dir, **options)
    return read_session(run_dir)


def normal(record):
    """Everything but what text keeps only to a float's precision."""
    fields = vars(record) | {"trees": {name: tree.to_dict() for name, tree in record.trees.items()}}
    return fields | {"gauges": {name: vars_of(gauge) for name, gauge in record.gauges.items()}}


def vars_of(gauge):
    return {field: getattr(gauge, field) for field in gauge.__slots__}


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_ml8_a_gauge_that_is_infinite_comes_back_so(run_dir, value):
    session = make_session(run_dir, pid=find_dead_pid())
    session.processes[0].gauges["ratio"] = GaugeNode(value)
    session.save(run_dir / "copy.json")
    json.loads((run_dir / "copy.json").read_text(), parse_constant=pytest.fail)
    gauge = Session.load(run_dir / "copy.json").processes[0].gauges["ratio"]
    assert (gauge.value, gauge.min_value, gauge.max_value) == (value, value, value)


def test_a_saved_session_comes_back_whole(run_dir):
    session = make_session(run_dir, pid=find_dead_pid(), events=[(6 * S, 8 * S, 1, 1), (7 * S, 0, 1, 1, 2**63 + 5)])
    session.config, session.problems = {"rollout": 32}, ["something"]
    session.save(run_dir / "copy.json")
    loaded = Session.load(run_dir / "copy.json")
    assert [normal(record) for record in loaded.processes] == [normal(record) for record in session.processes]
    for field in ("created_s", "run", "machine", "config", "problems"):
        assert getattr(loaded, field) == getattr(session, field)
    assert loaded.processes[0].events == [Event(6 * S, 8 * S, 1, 1, 0), Event(7 * S, 0, 1, 1, 2**63 + 5)]
    assert loaded.processes[0].trees["Learner_0"].children["mean"].kind.window == 3
    assert sorted(os.listdir(run_dir)) == ["copy.json", "profile"]


def test_the_events_of_the_last_ten_seconds_are_kept(run_dir):
    events = [(second * S, (second + 1) * S, 1, 1) for second in range(20, 40)]
    session = make_session(run_dir, events=events)
    session.save(run_dir / "copy.json")
    kept = Session.load(run_dir / "copy.json").processes[0].events
    assert [event.start_ns // S for event in kept] == list(range(29, 40))
    assert len(session.processes[0].events) == 20


def test_a_tree_too_deep_for_nested_json_is_kept(run_dir):
    path = run_dir / "profile" / "live" / "Deep.1.rec"
    writer = RecordWriter(path, num_slots=512)
    parent = writer.root("Deep")
    for depth in range(500):
        parent = writer.node(parent, f"k{depth % 10}", passes=[S])
    writer.close()
    session = read_session(run_dir)
    session.save(run_dir / "copy.json")
    (record,) = Session.load(run_dir / "copy.json").processes
    assert len(list(record.trees["Deep"].walk())) == 501


def test_sessions_of_runs_of_version_0_1_are_read(tmp_path):
    timing = Timing("Learner 0 profile")
    with timing.add_time("train"):
        pass
    document = {"schema_version": 1, "reason": "enough frames", "trees": {"Learner_0": timing.to_dict()}}
    (tmp_path / "session.json").write_text(json.dumps(document))
    session = Session.load(tmp_path / "session.json")
    (record,) = session.processes
    assert session.run == {"reason": "enough frames"}
    assert (record.name, record.state, record.gauges) == ("Learner_0", "ended", {})
    assert record.titles == {"Learner_0": "Learner 0 profile"}
    assert record.trees["Learner_0"].children["train"].statistics.count == 1
    session.save(tmp_path / "new.json")
    assert Session.load(tmp_path / "new.json").processes[0].read_ns == record.read_ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no session"),
        ("{", "is no session"),
        ("[]", "no schema_version"),
        ("[" * 100_000, "is no session"),
        ('{"schema_version": 3}', "has schema version 3.*reads 1 and 2"),
        ('{"schema_version": 2}', "damaged.*created_s"),
        ('{"schema_version": 1, "trees": {"A": {"count": "x"}}}', "damaged"),
        ('{"schema_version": 1, "trees": 5}', "damaged"),
    ],
)
def test_what_is_no_session_is_refused_with_the_reason(tmp_path, text, reason):
    path = tmp_path / "session.json"
    path.write_text(text)
    with pytest.raises(SessionError, match=reason):
        Session.load(path)


def test_damaged_events_are_refused(run_dir):
    session = make_session(run_dir, events=[(6 * S, 8 * S, 1, 1)])
    session.save(run_dir / "copy.json")
    document = json.loads((run_dir / "copy.json").read_text())
    events = document["processes"][0]["events"]
    for broken in ({"num_events": 2**40}, {"num_events": 2}, {"columns": ["@@"] * 5}, {"columns": ["AAAA"] * 5}):
        document["processes"][0]["events"] = events | broken
        (run_dir / "copy.json").write_text(json.dumps(document))
        with pytest.raises(SessionError, match="damaged"):
            Session.load(run_dir / "copy.json")


def test_events_of_all_processes_together_are_no_bomb(run_dir, monkeypatch):
    for name in ("Learner_0", "Batcher_0"):
        write_record(run_dir, name, events=[(6 * S, 8 * S), (8 * S, 11 * S)])
    session = read_live(run_dir)
    num_events = sum(len(record.events) for record in session.processes)
    assert num_events == 4
    session.save(run_dir / "session.json")
    monkeypatch.setattr(session_documents, "_MAX_EVENTS", num_events)
    Session.load(run_dir / "session.json")
    monkeypatch.setattr(session_documents, "_MAX_EVENTS", num_events - 1)
    with pytest.raises(SessionError, match=f"damaged session: ValueError it has {num_events} events"):
        Session.load(run_dir / "session.json")
    Session.load(run_dir / "session.json", with_events=False)


def test_a_missing_session_is_an_error_with_its_path(tmp_path):
    with pytest.raises(SessionError, match=r"none\.json cannot be read: No such file"):
        Session.load(tmp_path / "none.json")


def test_merging_adds_processes_and_of_one_that_both_have_takes_the_later_reading(run_dir):
    path = write_record(run_dir)
    first, second = read_session(run_dir), read_session(run_dir)
    first.processes = [read_record_file(path, now_ns=20 * S)]
    second.processes = [read_record_file(path, now_ns=30 * S)]
    write_record(run_dir, "Batcher_0", pid=find_dead_pid(), started_ns=4 * S)
    second.processes += [record for record in read_session(run_dir).processes if record.name == "Batcher_0"]
    second.config = {"rollout": 32}
    first.merge(second)
    assert [(record.name, record.read_ns // S) for record in first.processes] == [("Batcher_0", 10), ("Learner_0", 30)]
    assert first.config == {"rollout": 32}
    second.merge(first)
    assert len(second.processes) == 2


def test_a_run_that_goes_on_is_read_from_its_record_files(run_dir):
    write_record(run_dir)
    write_record(run_dir, "RolloutWorker_w0", pid=find_dead_pid(), started_ns=6 * S)
    (run_dir / "config.json").write_text(json.dumps({"flags": {"rollout": {"value": 32, "origin": "default"}}}))
    (run_dir / "profile" / "session.json").write_text('{"schema_version": 1, "trees": {}}')
    session = read_session(run_dir)
    assert [(record.name, record.state) for record in session.processes] == [
        ("Learner_0", "alive"),
        ("RolloutWorker_w0", "gone"),
    ]
    assert session.config == {"rollout": 32}
    assert session.machine["host"] == os.uname().nodename


def test_the_cores_of_a_run_are_those_that_its_processes_may_use_and_not_the_readers(run_dir, monkeypatch):
    write_record(run_dir)
    monkeypatch.setattr("sample_profiler.profiling.process.machine.num_usable_cores", lambda: 64)
    assert read_session(run_dir).machine["num_cpus"] == 64, "where they do not say"
    for name, cores in (("Runner", 3), ("RolloutWorker_w0", 1)):
        monkeypatch.setattr("sample_profiler.profiling.recording.file.num_usable_cores", lambda cores=cores: cores)
        RecordFile(RunFolder(run_dir).live().record(name, 1), process_name=name, ring_bytes=0).close()
    assert read_session(run_dir).machine["num_cpus"] == 3


def test_a_run_that_has_ended_is_read_from_its_session(run_dir):
    write_record(run_dir, end_ns=20 * S, pid=find_dead_pid())
    session = read_session(run_dir)
    session.run["reason"] = "enough frames"
    session.save(RunFolder(run_dir).session)
    assert read_session(run_dir).run["reason"] == "enough frames"
    for path in RunFolder(run_dir).live().path.iterdir():
        path.unlink()
    assert read_session(run_dir).processes[0].is_closed


def test_who_wrote_the_session_was_alive_then_and_is_not_now(run_dir):
    path = write_record(run_dir)
    session = read_session(run_dir)
    assert session.processes[0].is_alive
    session.save(RunFolder(run_dir).session)
    path.unlink()
    assert read_session(run_dir).processes[0].state == "ended"


def test_a_run_that_was_killed_after_an_earlier_one_is_read_from_its_record_files(run_dir):
    Session(created_s=1_600_000_000.0, run={"reason": "earlier"}).save(RunFolder(run_dir).session)
    write_record(run_dir, pid=find_dead_pid())
    session = read_session(run_dir)
    assert "reason" not in session.run
    assert session.processes[0].state == "gone"
    assert session.created_s == pytest.approx(time.time(), abs=60)


def test_a_record_file_that_cannot_be_read_is_a_problem_and_the_others_count(run_dir):
    write_record(run_dir)
    (run_dir / "profile" / "live" / "half.7.rec").write_bytes(b"SPRECORD")
    session = read_session(run_dir)
    assert [record.name for record in session.processes] == ["Learner_0"]
    (problem,) = session.problems
    assert "half.7.rec is truncated" in problem


def test_a_broken_session_beside_record_files_is_a_problem(run_dir):
    write_record(run_dir, pid=find_dead_pid())
    RunFolder(run_dir).session.write_text("{")
    session = read_session(run_dir)
    assert len(session.processes) == 1
    assert "is no session" in session.problems[0]


def test_a_folder_of_somebody_else_is_an_error_that_says_so(run_dir, monkeypatch):
    def refuse(path, *_args, **_kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    for method in ("is_dir", "exists", "glob"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, method, refuse)
            with pytest.raises(SessionError, match=r"cannot be read: Permission denied; check the path"):
                read_session(run_dir)
    monkeypatch.setattr(Path, "glob", refuse)
    with pytest.raises(SessionError, match="Permission denied"):
        read_live(run_dir)


def test_a_folder_that_is_no_run_is_an_error_that_says_what_is_missing(tmp_path):
    with pytest.raises(SessionError, match=r"has nothing to read: no profile/session\.json"):
        read_session(tmp_path)
    with pytest.raises(SessionError, match="is no folder"):
        read_session(tmp_path / "none")
    (tmp_path / "profile").mkdir()
    RunFolder(tmp_path).session.write_text("{")
    with pytest.raises(SessionError, match="is no session"):
        read_session(tmp_path)
