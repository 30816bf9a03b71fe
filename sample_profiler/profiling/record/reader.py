"""Reads the record file of a process, alive, stopped, killed or finished, into a `ProcessRecord`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from sample_profiler.errors import TimingError
from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.record.earlier_timers import EARLIER_TIMERS, read_earlier_timers, take_off
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.header import LiveCounters, OpenRecord
from sample_profiler.profiling.record.process_record import (
    SILENT_S,
    Anchor,
    OpenBlock,
    ProcessRecord,
    ProcessState,
    is_timers,
)
from sample_profiler.profiling.record.process_state import PLACE, is_of_earlier_start, process_state
from sample_profiler.profiling.record.ring_reader import EventFollower, last_event, read_events
from sample_profiler.profiling.record.slots import Slot, read_gauges, read_slots
from sample_profiler.profiling.tree.kinds import ADD_TIME, Kind, make_kind
from sample_profiler.profiling.tree.statistics import NS_PER_S, DeviceStatistics, Statistics, bucket_index
from sample_profiler.profiling.tree.tree import MAX_DEPTH, TreeNode

__all__ = [
    "Anchor",
    "EventFollower",
    "OpenBlock",
    "ProcessRecord",
    "is_written",
    "read_followed",
    "read_record_file",
]

_FILE_NAME = re.compile(r"(?P<name>.+)\.\d+$")


def read_record_file(
    path: str | os.PathLike[str],
    *,
    with_events: bool = False,
    with_histograms: bool = True,
    now_ns: int | None = None,
) -> ProcessRecord:
    """Return what a record file holds at this moment.

    Without events and histograms this is a few kilobytes, whatever the size of the file.

    Args:
        path: the file.
        with_events: whether to read the latest events, too.
        with_histograms: whether the statistics have their histograms.
        now_ns: up to when the open blocks of a live process count, on the monotonic clock; None: up to now.

    Raises:
        RecordError: it cannot be read, is truncated or damaged, or of another version or byte order.
    """
    with OpenRecord(path) as record:
        return _read_known(record, with_events, with_histograms, now_ns)


def read_followed(follower: EventFollower) -> ProcessRecord:
    """Return what a file that is followed holds at this moment, without events, also after it was removed.

    Raises:
        RecordError: as in `read_record_file`.
    """
    return _read_known(follower.record, with_events=False, with_histograms=False, now_ns=None)


def is_written(follower: EventFollower) -> bool:
    """Tell whether anything may still come into a file that is followed: its process is there, or cannot be seen.

    Raises:
        RecordError: as in `read_record_file`.
    """
    record = follower.record
    live = record.read_live()
    return not live.is_closed and _state_of_writer(record, record.read_metadata(live)) != "gone"


def _read_known(record: OpenRecord, with_events: bool, with_histograms: bool, now_ns: int | None) -> ProcessRecord:
    try:
        return _read(record, with_events, with_histograms, now_ns)
    except KeyError as error:
        raise record.unknown_string(error) from error


def _state_of_writer(record: OpenRecord, metadata: Mapping[str, str]) -> ProcessState:
    host, place = metadata.get("host", ""), metadata.get(PLACE, "")
    return process_state(record.header.pid, host, record.header.start_anchor, place)


def _read(record: OpenRecord, with_events: bool, with_histograms: bool, now_ns: int | None) -> ProcessRecord:
    live = record.read_live()
    first, events = read_events(record, 0, live.events_written) if with_events else (0, Events())
    if with_events:  # of nodes that may have been made meanwhile
        live = record.read_live()
    header = record.read_fixed()  # the end anchors are written before the file counts as closed
    metadata = record.read_metadata(live)
    state: ProcessState = "ended"
    if not live.is_closed:
        state = _state_of_writer(record, metadata)
    is_changing = state in ("alive", "unknown")
    if now_ns is None:
        now_ns = time.perf_counter_ns()
    strings = record.read_strings(live)
    slots = list(read_slots(record, live.num_nodes, with_histograms=with_histograms, is_changing=is_changing))
    if live.is_closed:
        now_ns = header.end_monotonic_ns
    elif state in ("gone", "unknown"):
        now_ns = _last_sign_of_life_ns(record, live, slots)
    silent_s = _silence_s(record, now_ns) if state == "unknown" else None
    if silent_s is not None and silent_s >= SILENT_S and _is_of_earlier_start(metadata):
        state, silent_s = "gone", None
    nodes = _Nodes(record, strings, slots, now_ns, with_histograms)
    _take_off_earlier(record, nodes, metadata)
    return ProcessRecord(
        name=metadata.get("process_name") or _name_of_file(record),
        pid=header.pid,
        host=metadata.get("host", ""),
        is_compiled=bool(header.is_compiled),
        is_closed=bool(live.is_closed),
        state=state,
        process_started_ns=header.process_started_ns,
        read_ns=now_ns,
        start_anchor=header.start_anchor,
        end_anchor=header.end_anchor if live.is_closed else None,
        metadata=metadata,
        trees=nodes.trees,
        titles=nodes.titles,
        gauges=read_gauges(record, live.num_gauges, strings),
        events=events,
        paths=nodes.paths,
        thread_names=_thread_names(live, strings),
        num_events_lost=first if with_events else max(0, live.events_written - header.num_events),
        num_nodes_dropped=live.nodes_dropped,
        open_blocks=nodes.open_blocks,
        silent_s=silent_s,
    )


def _is_of_earlier_start(metadata: Mapping[str, str]) -> bool:
    return is_of_earlier_start(metadata.get("host", ""), metadata.get(PLACE, ""))


def _silence_s(record: OpenRecord, last_sign_ns: int) -> float:
    """Return for how long nothing has come into a file, by its own clocks and by that of its file system."""
    start = record.header.start_anchor
    last_sign_s = (start.wall_ns + last_sign_ns - start.monotonic_ns) / NS_PER_S
    # A clock that is ahead of this one by hours is wrong by hours: nothing was written just now by it.
    return min(abs(time.time() - moment_s) for moment_s in (last_sign_s, record.written_s()))


def _take_off_earlier(record: OpenRecord, nodes: _Nodes, metadata: dict[str, str]) -> None:
    """Leave in the timers what they have recorded since the file began, and out of the metadata what was before."""
    try:
        earlier = read_earlier_timers(metadata)
    except (ValueError, RecursionError) as error:
        raise record.damaged(str(error)) from error
    metadata.pop(EARLIER_TIMERS, None)
    for component, began_ns in nodes.began_ns.items():
        if is_timers(component) and began_ns in earlier:
            take_off(nodes.trees[component], earlier[began_ns])


class _Nodes:
    """Makes trees of slots.

    Args:
        record: where they are from.
        strings: with their names.
        slots: parents before their children.
        now_ns: up to when open blocks count.
        with_histograms: whether statistics have histograms.

    Attributes:
        trees, titles, paths, open_blocks: as in `ProcessRecord`.
        began_ns: when each tree began, by component.

    Raises:
        KeyError: one of them has no name.
        RecordError: the slots make no trees.
    """

    def __init__(
        self, record: OpenRecord, strings: Mapping[int, str], slots: list[Slot], now_ns: int, with_histograms: bool
    ) -> None:
        self.trees: dict[str, TreeNode] = {}
        self.titles: dict[str, str] = {}
        self.began_ns: dict[str, int] = {}
        self.paths: list[tuple[str, ...]] = []
        self.open_blocks: list[OpenBlock] = []
        self._record = record
        self._now_ns = now_ns
        self._with_histograms = with_histograms
        nodes: list[TreeNode] = []
        for index, slot in enumerate(slots):
            name, parent = strings[slot.key], slot.parent
            if not -1 <= parent < index:
                raise record.damaged(f"its node {index} hangs under {parent}")
            if parent < 0:
                node = self._make_root(slot, name, strings[slot.title])
            else:
                node = TreeNode(name, self._kind(slot) if slot.kind or slot.window else ADD_TIME)
                self.paths.append((*self.paths[parent], name))
                if len(self.paths[-1]) > MAX_DEPTH:
                    raise record.damaged(f"a tree of it is deeper than {MAX_DEPTH} blocks")
                self._fill(node.statistics, slot)
                if node.statistics.count:
                    nodes[parent].children[name] = node
            node.is_parallel = slot.flags & layout.FLAG_PARALLEL != 0
            if any(slot.device):
                total_ns, count, num_unresolved = slot.device
                node.device = DeviceStatistics(count, total_ns, num_unresolved)
            nodes.append(node)

    def _make_root(self, slot: Slot, component: str, title: str) -> TreeNode:
        node = TreeNode()
        # A Timing that was begun anew takes the place of the one before.
        self.trees[component] = node
        self.titles[component] = title
        # One whose thread is over has lasted for so long.
        self.began_ns[component] = slot.started_ns or slot.figures.last_end_ns - slot.figures.last_ns
        self.paths.append((component,))
        self._fill(node.statistics, slot)
        if slot.started_ns and not slot.figures.num_open:
            open_ns = self._now_ns - slot.started_ns
            self._add_open(node.statistics, 1, open_ns, open_ns)
        return node

    def _kind(self, slot: Slot) -> Kind:
        try:
            return make_kind(layout.KINDS[slot.kind], slot.window or None)
        except (IndexError, TimingError) as error:
            raise self._record.damaged(f"it has a block of kind {slot.kind}") from error

    def _fill(self, statistics: Statistics, slot: Slot) -> None:
        (
            statistics.count,
            statistics.total_ns,
            statistics.min_ns,
            statistics.max_ns,
            statistics.last_ns,
            statistics.last_end_ns,
            num_open,
            open_start_sum_ns,
            open_since_ns,
            open_thread,
        ) = slot.figures
        statistics.recent_ns = slot.recent_ns
        statistics.histogram = slot.histogram
        if num_open > 0:
            now_ns = self._now_ns
            # A block entered while its slot was read counts with nothing.
            longest_ns = max(0, now_ns - open_since_ns)
            self._add_open(statistics, num_open, max(longest_ns, num_open * now_ns - open_start_sum_ns), longest_ns)
            if slot.window:
                statistics.recent_ns = [*statistics.recent_ns, longest_ns][-slot.window :]
            if slot.parent >= 0:
                path = self.paths[-1]
                self.open_blocks.append(OpenBlock(path[0], path[1:], open_since_ns, open_thread))

    def _add_open(self, statistics: Statistics, num_open: int, total_ns: int, longest_ns: int) -> None:
        """Count open passes as if they ended now. Of several, all but the longest are taken for equal."""
        total_ns, longest_ns = max(0, total_ns), max(0, longest_ns)
        others_ns = max(0, total_ns - longest_ns) // max(1, num_open - 1)
        shortest_ns = min(longest_ns, others_ns) if num_open > 1 else longest_ns
        statistics.min_ns = min(statistics.min_ns, shortest_ns) if statistics.count else shortest_ns
        statistics.max_ns = max(statistics.max_ns, longest_ns, shortest_ns)
        statistics.count += num_open
        statistics.total_ns += total_ns
        statistics.last_ns = longest_ns
        statistics.last_end_ns = self._now_ns
        if self._with_histograms:
            histogram = statistics.histogram
            for duration_ns, count in ((longest_ns, 1), (others_ns, num_open - 1)):
                if count:
                    bucket = min(bucket_index(duration_ns), layout.NUM_BUCKETS - 1)
                    histogram[bucket] = histogram.get(bucket, 0) + count


def _last_sign_of_life_ns(record: OpenRecord, live: LiveCounters, slots: list[Slot]) -> int:
    latest = last_event(record, live.events_written)
    signs = [live.flushed_ns, record.header.start_monotonic_ns]
    signs += [latest.start_ns, latest.end_ns] if latest is not None else []
    signs += [max(slot.figures.last_end_ns, slot.figures.open_since_ns, slot.started_ns) for slot in slots]
    return max(signs)


def _thread_names(live: LiveCounters, strings: Mapping[int, str]) -> dict[int, str]:
    keys = live.thread_keys[: live.num_threads]
    # A name may be newer than the strings that were read.
    return {number: strings[key] for number, key in enumerate(keys, start=1) if strings.get(key)}


def _name_of_file(record: OpenRecord) -> str:
    match = _FILE_NAME.fullmatch(record.path.stem)
    return match["name"] if match else record.path.stem
