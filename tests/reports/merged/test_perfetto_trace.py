"""Traces in Perfetto's own format, read back with the library of protocol buffers and Perfetto's field numbers."""

from __future__ import annotations

import gzip
import json

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sample_profiler.analysis.lives import Life
from sample_profiler.profiling.record.flows import END, REQUEST, START, flow_point
from sample_profiler.profiling.record.format import FLOW_POINT
from sample_profiler.reports.merged.perfetto_trace import perfetto_packets, write_trace
from sample_profiler.reports.timeline.counters import Counter
from sample_profiler.reports.timeline.timeline import Timeline
from tests.reports.records import US, make_record, of_phase

# Name, number and type of the fields that are written, as Perfetto's .proto files have them.
MESSAGES = {
    "Process": "pid:1:int32 process_name:6:string legacy_sort_index:3:int32",
    "Thread": "pid:1:int32 tid:2:int64 thread_name:5:string",
    "CounterTrack": "unit_name:6:string",
    "Track": "uuid:1:uint64 parent_uuid:5:uint64 name:2:string process:3:Process thread:4:Thread "
    "counter:8:CounterTrack",
    "Argument": "name_iid:1:uint64 bool_value:2:bool int_value:4:int64 double_value:5:double "
    "string_value_iid:17:uint64",
    "Legacy": "phase:2:int32 unscoped_id:6:uint64 bind_to_enclosing:12:bool",
    "TrackEvent": "category_iids:3:uint64* debug_annotations:4:Argument* legacy_event:6:Legacy type:9:int32 "
    "name_iid:10:uint64 track_uuid:11:uint64 double_counter_value:44:double",
    "Interned": "iid:1:uint64 name:2:string",
    "InternedData": "event_categories:1:Interned* event_names:2:Interned* debug_annotation_names:3:Interned* "
    "debug_annotation_string_values:29:Interned*",
    "Packet": "timestamp:8:uint64 trusted_packet_sequence_id:10:uint32 track_event:11:TrackEvent "
    "interned_data:12:InternedData sequence_flags:13:uint32 track_descriptor:60:Track",
    "Trace": "packet:1:Packet*",
}


def make_trace_class():
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="p", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            own, number, kind = field.rstrip("*").split(":")
            label = "LABEL_REPEATED" if field.endswith("*") else "LABEL_OPTIONAL"
            new = message.field.add(name=own, number=int(number), label=label)
            if kind in MESSAGES:
                new.type, new.type_name = new.TYPE_MESSAGE, f".p.{kind}"
            else:
                new.type = f"TYPE_{kind.upper()}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Trace"))


TRACE = make_trace_class()


class Read:
    """A trace as Perfetto sees it: names in the place of numbers, and the slices that begin and end."""

    def __init__(self, data):
        packets = TRACE.FromString(data).packet
        assert {packet.trusted_packet_sequence_id for packet in packets} == {1}
        assert packets[0].sequence_flags == 1, "the state of names begins here"
        self.tracks, self.slices, self.counters, self.arrows, self.instants = {}, [], [], [], []
        self.names = {kind: {} for kind in InternedKinds}
        events = []
        for packet in packets:
            if packet.HasField("track_descriptor"):
                self.tracks.setdefault(
                    packet.track_descriptor.uuid, TRACE.FromString(b"").packet.add().track_descriptor
                )
                self.tracks[packet.track_descriptor.uuid].MergeFrom(packet.track_descriptor)
            for kind in InternedKinds:
                for new in getattr(packet.interned_data, kind):
                    assert new.iid not in self.names[kind] and new.iid
                    self.names[kind][new.iid] = new.name
            if packet.HasField("track_event"):
                assert packet.sequence_flags == 2 and packet.track_event.track_uuid in self.tracks
                events.append((packet.timestamp, packet.track_event))
        open_slices = {}
        for time_ns, event in sorted(events, key=lambda pair: pair[0]):  # as Perfetto does, in the order of the file
            self._take(time_ns, event, open_slices.setdefault(event.track_uuid, []))
        assert not any(open_slices.values())

    def _take(self, time_ns, event, open_slices):
        name = self.names["event_names"].get(event.name_iid, "")
        arguments = {
            self.names["debug_annotation_names"][each.name_iid]: self._value(each) for each in event.debug_annotations
        }
        if event.HasField("legacy_event"):
            legacy = event.legacy_event
            self.arrows.append(
                (chr(legacy.phase), legacy.unscoped_id, legacy.bind_to_enclosing, time_ns, event.track_uuid)
            )
        elif event.type == 1:
            categories = [self.names["event_categories"][number] for number in event.category_iids]
            open_slices.append([name, categories, arguments, time_ns, event.track_uuid])
        elif event.type == 2:
            name, categories, arguments, begin_ns, track = open_slices.pop()
            self.slices.append((self.place(track), name, begin_ns, time_ns - begin_ns, categories, arguments))
        elif event.type == 3:
            self.instants.append((self.place(event.track_uuid), name, time_ns, arguments))
        else:
            self.counters.append((self.place(event.track_uuid), time_ns, event.double_counter_value))

    def _value(self, argument):
        if argument.HasField("string_value_iid"):
            return self.names["debug_annotation_string_values"][argument.string_value_iid]
        ((_, value),) = ((field, value) for field, value in argument.ListFields() if field.name != "name_iid")
        return value

    def place(self, uuid):
        """Return the names of a track's process and of the track."""
        track = self.tracks[uuid]
        processes = {
            each.process.pid: each.process.process_name for each in self.tracks.values() if each.HasField("process")
        }
        if track.HasField("thread"):
            return processes[track.thread.pid], track.thread.thread_name
        return self.tracks[track.parent_uuid].process.process_name, track.name


InternedKinds = ("event_categories", "event_names", "debug_annotation_names", "debug_annotation_string_values")


def read(*events):
    return Read(b"".join(perfetto_packets(map(json.dumps, events))))


def test_the_packet_of_a_pass_is_as_the_wire_format_has_it():
    first, described, begin, end = perfetto_packets(['{"ph":"X","name":"a","pid":1,"tid":1,"ts":0.3,"dur":200}'])
    assert first == bytes.fromhex("0a04 6801 5001")  # sequence_flags 1, sequence 1
    assert b"thread 1" in described
    # timestamp 300; event: type 1, track 1, name 1; flags 2; sequence 1; names: 1 is "a"
    assert begin == bytes.fromhex("0a18 40ac02 5a06 4801 5801 5001 6802 5001 6207 1205 0801 120161")
    assert end == bytes.fromhex("0a0e 40ec9c0c 5a04 4802 5801 6802 5001")  # timestamp 200,300


def test_a_timeline_is_the_same_in_both_formats(tmp_path):
    number, other = (flow_point(phase, REQUEST, 5) for phase in (START, END))
    inference = (("InferenceWorker_p0-w0",), ("InferenceWorker_p0-w0", "batch"))
    events = [(0, 40 * US, 1, 1, 0), (5 * US, 10 * US + 7, 2, 1, 0), (10 * US + 7, 40 * US, 2, 1, 0)]
    events += [(20 * US, 60 * US, 1, 1, 0), (3, FLOW_POINT, 1, 1, number)]
    records = [
        make_record(events=events),
        make_record(
            "InferenceWorker_p0-w0", [(30 * US, 35 * US, 1, 1, 0), (31 * US, FLOW_POINT, 1, 1, other)], inference
        ),
    ]
    moments = tuple(US * moment for moment in (1, 2, 3, 4, 5, 6))
    more = {
        "counters": [Counter("fps", [(0, 1.5), (50 * US, -2.0)])],
        "lives": [Life(3, "RolloutWorker_w0", moments, 1)],
    }
    for name in ("t.json", "t.pftrace", "t.pftrace.gz"):
        Timeline(records, **more).write(tmp_path / name)
    chrome = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    trace = Read((tmp_path / "t.pftrace").read_bytes())
    assert gzip.decompress((tmp_path / "t.pftrace.gz").read_bytes()) == (tmp_path / "t.pftrace").read_bytes()
    assert (tmp_path / "t.pftrace").stat().st_size < (tmp_path / "t.json").stat().st_size
    passes = {(place[0], name, ns, long, *arguments.values()) for place, name, ns, long, _, arguments in trace.slices}
    names = {each["pid"]: each["args"]["name"] for each in of_phase(chrome, "M") if each["name"] == "process_name"}
    expected = {
        (names[x["pid"]], x["name"], round(x["ts"] * US), round(x["dur"] * US), x["args"]["path"])
        for x in of_phase(chrome, "X")
    }
    stages = {each for each in passes if each[0] == "Slowest trajectories"}
    assert passes - stages == expected and len(stages) == len(of_phase(chrome, "b"))
    assert {place for place, *_ in trace.slices} > {
        ("RolloutWorker_w0", "MainThread"),
        ("RolloutWorker_w0", "MainThread (2)"),
    }
    assert trace.counters == [(("Run", "fps"), 0, 1.5), (("Run", "fps"), 50 * US, -2.0)]
    assert [(phase, bound, ns) for phase, _, bound, ns, _ in trace.arrows] == [("s", False, 3), ("f", True, 31 * US)]
    assert len({arrow for _, arrow, *_ in trace.arrows}) == 1
    for _, _, _, ns, track in trace.arrows:
        assert any(
            begin <= ns <= begin + long for place, _, begin, long, *_ in trace.slices if place == trace.place(track)
        )
    indices = {
        each.process.process_name: each.process.legacy_sort_index
        for each in trace.tracks.values()
        if each.HasField("process")
    }
    assert indices["Run"] < indices["RolloutWorker_w0"] < indices["InferenceWorker_p0-w0"]


def test_operators_keep_their_arguments():
    arguments = {"n": -3, "big": 2**70, "share": 0.5, "is": True, "text": "a", "list": [1, {"b": None}], "none": None}
    shared = {"pid": 1, "tid": 2, "ts": 1}
    trace = read(
        {"ph": "X", "name": "op", "cat": "cpu_op", "dur": 1, "args": arguments, **shared},
        {"ph": "i", "name": "[memory]", "s": "t", "args": {"bytes": 8}, **shared},
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Learner_0"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "captured: main"}},
    )
    ((place, name, begin_ns, long_ns, categories, told),) = trace.slices
    assert (place, name, begin_ns, long_ns, categories) == (
        ("Learner_0", "captured: main"),
        "op",
        1000,
        1000,
        ["cpu_op"],
    )
    assert told == arguments | {"big": str(2**70), "list": '[1, {"b": null}]', "none": "null"}
    assert trace.instants == [(place, "[memory]", 1000, {"bytes": 8})]


@pytest.mark.parametrize(
    "event",
    [
        {"ph": "Z", "name": "unknown", "pid": 1, "ts": 1},
        {"ph": "X", "name": "early", "pid": 1, "ts": -5, "dur": 2, "args": ["no", "names"]},
        {"ph": "X", "name": "\ud800", "pid": 1, "tid": "GPU", "cat": 5},
        {"ph": "C", "name": "text", "pid": 1, "ts": 1, "args": {"a": "b"}},
        {"ph": "s", "name": "no number", "pid": 1, "ts": 1},
        {"ph": "b", "name": "of lists", "pid": 1, "ts": 1, "id": [1]},
        {"ph": "M", "name": "process_labels", "pid": 1, "args": {"labels": "CPU"}},
    ],
)
def test_whatever_others_have_put_into_a_trace_the_rest_is_written(event):
    data = b"".join(perfetto_packets(map(json.dumps, [event, {"ph": "X", "name": "b", "pid": 1, "ts": 9, "dur": 1}])))
    assert b"\x12\x01b" in data and TRACE.FromString(data).packet


def test_other_names_are_chrome_traces(tmp_path):
    write_trace(tmp_path / "t.json", ['{"ph":"X"}'], lambda: {"metadata": 1})
    assert json.loads((tmp_path / "t.json").read_text())["metadata"] == 1
