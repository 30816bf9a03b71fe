"""Channels and reports: nothing lost, cut, mixed up or reordered, whoever writes and whoever dies."""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import threading
from functools import partial

import pytest
from spawned_components import (
    die_in_the_middle_of_a_report,
    make_records,
    make_spawned,
    make_writer,
    send_a_large_report,
)

from sample_profiler.errors import ConfigError, MessageError
from sample_profiler.runtime.messages.channels import LocalChannel, LocalReports, PipeChannel, PipeReports, make_pipe
from sample_profiler.runtime.messages.fifo_channels import DealtChannel, FifoChannel, FifoLoop
from sample_profiler.runtime.processes.child import ChildSettings


def is_readable(source) -> bool:
    return bool(select.select([source], [], [], 0)[0])


def make_fifo_channel(most_values: int = 1024) -> FifoChannel:
    loop = FifoLoop("Reader")
    channel = loop.make_channel("values", most_values)
    loop.open()
    return channel


@pytest.fixture(params=[LocalChannel, PipeChannel, make_fifo_channel])
def channel(request):
    channel = request.param()
    yield channel
    if isinstance(channel, PipeChannel):
        channel._read.close()
        channel._write.close()


@pytest.fixture
def reports():
    reports = PipeReports()
    yield reports
    reports._read.close()
    reports._write.close()


def test_values_arrive_once_and_in_the_order_of_sending(channel):
    channel.send([3, 1])
    channel.send(range(5, 8))
    channel.send(value for value in (-(2**31), 2**31 - 1))
    assert channel.receive() == [3, 1, 5, 6, 7, -(2**31), 2**31 - 1]
    assert channel.receive() == []


def test_receiving_from_an_empty_channel_returns_at_once_with_nothing(channel):
    assert channel.receive() == []
    channel.send([])
    assert channel.receive() == []


def test_a_reader_may_take_the_oldest_values_and_leave_the_others(channel):
    channel.send([3, 1, 5])
    channel.send([4])
    assert channel.receive(2) == [3, 1]
    channel.send([9])
    assert [channel.receive(2), channel.receive(2), channel.receive(2)] == [[5, 4], [9], []]


def test_what_is_cleared_is_never_received(channel):
    channel.send([3, 1])
    channel.send(range(100))
    channel.clear()
    assert channel.receive() == []
    channel.send([7])
    assert channel.receive() == [7]


def test_both_kinds_of_channel_tell_that_something_is_there():
    local, pipe = LocalChannel(), PipeChannel()
    assert not local.has_pending()
    assert not is_readable(pipe)
    for channel in (local, pipe):
        channel.send([1])
    assert local.has_pending()
    assert is_readable(pipe)


@pytest.mark.parametrize("make_channel", [PipeChannel, make_fifo_channel])
def test_a_value_of_more_than_32_bits_is_an_error_and_not_another_value(make_channel):
    channel = make_channel()
    with pytest.raises(OverflowError):
        channel.send([2**31])
    assert channel.receive() == []


@pytest.mark.parametrize("make_channel", [PipeChannel, partial(make_fifo_channel, 50_000)])
def test_records_of_many_writers_in_processes_of_their_own_stay_whole_and_in_order(
    make_channel, supervisor, wait_until
):
    channel, num_records, writers = make_channel(), 300, range(3)
    for writer in writers:
        maker = partial(make_writer, channel=channel, writer=writer, num_records=num_records)
        supervisor.spawn(ChildSettings(f"Writer_{writer}"), maker)
    expected = {writer: list(make_records(writer, num_records)) for writer in writers}
    num_values = sum(len(record) for records in expected.values() for record in records)
    received: list[int] = []
    # More than fits in the pipe, so that writers have to wait for this reader.
    wait_until(lambda: received.extend(channel.receive()) or len(received) >= num_values)

    assert len(received) == num_values
    seen: dict[int, list[list[int]]] = {writer: [] for writer in writers}
    position = 0
    while position < num_values:
        _, writer, _, length = received[position : position + 4]
        seen[writer].append(received[position : position + 4 + length])
        position += 4 + length
    assert seen == expected


def test_two_readers_of_one_channel_share_what_is_there_and_neither_waits():
    channel, received = PipeChannel(), [[], []]
    sent = list(range(20_000))
    done = threading.Event()

    def read(values: list[int]) -> None:
        while not done.is_set() or is_readable(channel):
            values.extend(channel.receive())

    threads = [threading.Thread(target=read, args=(values,)) for values in received]
    for thread in threads:
        thread.start()
    for value in sent:
        channel.send([value])
    done.set()
    for thread in threads:
        thread.join()
    assert sorted(received[0] + received[1]) == sent
    assert all(values == sorted(values) for values in received)


@pytest.mark.parametrize("num_together", [1, 3, 100])
def test_a_queue_in_shared_memory_has_room_for_as_many_values_as_were_counted_and_tells_of_one_more(num_together):
    loop, most = FifoLoop("Reader"), {"one": 500, "other": 7}
    one, other = (loop.make_channel(name, most_values) for name, most_values in most.items())
    loop.open()
    for value in range(7):
        other.send([value])
    for first in range(0, 500, num_together):
        one.send(range(first, min(first + num_together, 500)))
    if num_together == 1:
        with pytest.raises(MessageError, match="the queue of Reader has no room"):
            other.send([7])
    assert (one.receive(), other.receive()) == (list(range(500)), list(range(7)))


def test_values_are_dealt_out_among_readers_of_whom_each_has_a_queue_of_its_own():
    channels = [LocalChannel() for _ in range(3)]
    DealtChannel(channels).send([4, 3, 7, 2, 2**31 - 1])
    assert [channel.receive() for channel in channels] == [[3], [4, 7, 2**31 - 1], [2]]
    DealtChannel(channels).send([5])
    assert [channel.receive() for channel in channels] == [[], [], [5]]


def test_more_values_than_fit_in_one_atomic_write_arrive_all():
    channel = PipeChannel(50_000)
    channel.send(range(50_000))
    assert channel.receive() == list(range(50_000))


def test_a_writer_waits_while_the_pipe_is_full_and_loses_nothing():
    channel = PipeChannel()
    fcntl.fcntl(channel.fileno(), fcntl.F_SETPIPE_SZ, 4096)
    thread = threading.Thread(target=channel.send, args=(range(10_000),))
    thread.start()
    received: list[int] = []
    while len(received) < 10_000:
        select.select([channel], [], [], 10)
        received += channel.receive()
    thread.join()
    assert received == list(range(10_000))


@pytest.fixture
def without_pipe_quota(monkeypatch):
    """Pipes have two pages, and no more can be had."""
    control, make = fcntl.fcntl, os.pipe

    def refuse(descriptor, command, *arguments):
        if command == fcntl.F_SETPIPE_SZ:
            raise PermissionError
        return control(descriptor, command, *arguments)

    def make_small():
        ends = make()
        control(ends[0], fcntl.F_SETPIPE_SZ, 8192)
        return ends

    monkeypatch.setattr(os, "pipe", make_small)
    monkeypatch.setattr(fcntl, "fcntl", refuse)


def test_a_user_without_pipe_quota_gets_smaller_pipes_that_work(without_pipe_quota):
    channel, reports = PipeChannel(128), PipeReports()
    channel.send([1])
    assert channel.receive() == [1]
    reports.send("report")
    assert reports.receive() == ["report"]


def test_pipes_that_have_no_room_for_what_may_be_in_them_are_refused(without_pipe_quota):
    PipeChannel(512)
    with pytest.raises(ConfigError, match=r"513 trajectories need pipes of 8,200 bytes.* no more than 8,192"):
        PipeChannel(513)


@pytest.mark.parametrize("num_together", [1, 3, 700, 1024])
def test_as_many_values_as_a_channel_is_for_are_sent_without_waiting(num_together):
    """Writes that begin a page each leave the rest of the one before empty: there is room all the same."""
    most = 50_000
    channel = PipeChannel(most)
    os.set_blocking(channel._write.fileno(), False)
    for first in range(0, most, num_together):
        channel.send(range(first, min(first + num_together, most)))
    assert channel.receive() == list(range(most))


def test_channels_take_no_more_of_the_quota_than_they_need():
    channels = [PipeChannel(128) for _ in range(3)]
    assert {fcntl.fcntl(channel.fileno(), fcntl.F_GETPIPE_SZ) for channel in channels} <= {8192, 65536}


def test_reports_are_any_objects_in_order(reports):
    sent = [{"a": [1, 2]}, None, "text", (1.5, b"\x00"), []]
    for report in sent:
        reports.send(report)
    assert reports.receive() == sent
    assert reports.receive() == []


def test_local_reports_take_any_object_as_one_report():
    reports = LocalReports()
    reports.send([1, 2])
    reports.send("ab")
    assert reports.receive() == [[1, 2], "ab"]


def test_an_object_that_cannot_be_pickled_leaves_no_partial_report(reports):
    with pytest.raises((pickle.PicklingError, AttributeError)):
        reports.send(lambda: None)
    reports.send("next")
    assert reports.receive() == ["next"]


@pytest.mark.parametrize("num_bytes", [1, 7, 8, 9, -9, -1])
def test_a_partial_report_stays_unseen_until_the_rest_of_it_has_come(reports, num_bytes):
    payload = pickle.dumps("some report")
    data = len(payload).to_bytes(8, "little") + payload
    os.write(reports._write.fileno(), data[:num_bytes])
    assert reports.receive() == []
    os.write(reports._write.fileno(), data[num_bytes:] + data)
    assert reports.receive() == ["some report"] * 2


def test_threads_of_one_process_do_not_mix_their_reports(reports):
    texts = [letter * 100_000 for letter in "abcd"]
    threads = [threading.Thread(target=lambda t=text: [reports.send(t) for _ in range(5)]) for text in texts]
    for thread in threads:
        thread.start()
    received: list[str] = []
    while len(received) < 20:
        select.select([reports], [], [], 10)
        received += reports.receive()
    for thread in threads:
        thread.join()
    assert sorted(received) == sorted(texts * 5)


def test_a_report_that_may_not_wait_is_sent_if_there_is_room(reports):
    assert reports.send_if_possible("first")
    assert not reports.send_if_possible("x" * select.PIPE_BUF), "it may not fit although there is room"
    assert reports.receive() == ["first"]


def test_a_report_that_may_not_wait_is_left_out_where_the_pipe_is_full(reports):
    fcntl.fcntl(reports.fileno(), fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(reports._write.fileno(), b"x")
    assert not reports.send_if_possible("left out")


def test_a_report_that_may_not_wait_is_left_out_while_another_one_waits_for_room(reports):
    with reports._sending:
        assert not reports.send_if_possible("left out")
    assert reports.receive() == []


def test_without_room_abandoned_reports_are_dropped_and_a_reader_that_comes_back_finds_whole_ones(reports):
    fcntl.fcntl(reports.fileno(), fcntl.F_SETPIPE_SZ, 4096)
    reports.is_abandoned = lambda: True
    sent = [bytes(5000), b"dropped", b"sent"]
    for report in sent[:2]:
        reports.send(report)
    assert not reports.send_if_possible("would be taken for the rest of the first one")
    assert reports.receive() == []
    reports.send(sent[2])
    assert reports.receive() == [sent[0], sent[2]]


def test_what_is_posted_waits_for_nobody_and_arrives_whole_and_in_order(reports):
    fcntl.fcntl(reports.fileno(), fcntl.F_SETPIPE_SZ, 4096)
    posted = [bytes(10_000), "second"]
    for report in posted:
        reports.post(report)
    received = []
    while not reports.flush():
        assert select.select([reports], [], [], 10)[0]
        received += reports.receive()
    assert received + reports.receive() == posted


def test_a_report_larger_than_the_pipe_arrives_whole(supervisor, await_report):
    child = supervisor.spawn(ChildSettings("Large"), partial(make_spawned, start=send_a_large_report))
    large = await_report(child, lambda report: isinstance(report, bytes))
    assert large == bytes(5 << 20)


def test_half_a_report_of_a_killed_child_is_never_seen(supervisor, reports_until_end):
    child = supervisor.spawn(ChildSettings("Killed"), partial(make_spawned, start=die_in_the_middle_of_a_report))
    received = reports_until_end(child)
    assert received[-1] == "whole"
    assert child.exit_code == -9


def test_the_read_end_of_a_pipe_never_waits_and_ends_can_be_closed_twice():
    read, write = make_pipe()
    with pytest.raises(BlockingIOError):
        os.read(read.fileno(), 1)
    for end in (read, write):
        descriptor = end.fileno()
        end.close()
        end.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
