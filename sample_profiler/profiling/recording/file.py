"""The writing side of a record file: what this process shows of itself to others while it runs.

The compiled recorder writes into the mapped file as it records. The one in pure Python keeps its blocks to itself and
writes them at each `RecordFile.flush` (see `record_writing`). Layout: `record_format`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_profiler.errors import TimingError
from sample_profiler.profiling.process.machine import host_name
from sample_profiler.profiling.process.usable_cores import num_usable_cores
from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.record.process_clock import anchor_now, process_start_ns
from sample_profiler.profiling.record.process_state import PLACE, process_place
from sample_profiler.profiling.record.thread_names import thread_names
from sample_profiler.profiling.record.writer import RecordMemory
from sample_profiler.profiling.recorder.pure import Recorder
from sample_profiler.profiling.recorder.tree_writer import TreeWriter
from sample_profiler.profiling.tree.gauges import GaugeNode, gauge_number
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.run_folder import LiveFolder

if TYPE_CHECKING:
    from sample_profiler.profiling.timing import Timing

__all__ = ["DEFAULT_RING_BYTES", "RecordFile"]

logger = logging.getLogger(__name__)

DEFAULT_RING_BYTES = 8 << 20


class RecordFile:
    """A record file of this process; any number of Timings may be attached to it.

    A forked child does not write to its parent's file: its Timings record on in its own memory.

    Args:
        path: of the file; one that is there is replaced. Its folder exists.
        process_name: what the process is.
        metadata: what else it says of itself.
        process_started_ns: when it started, on the clock of blocks; None: as the system tells.
        ring_bytes: room for the latest blocks, 32 bytes each; 0 keeps none.
        num_slots: room for so many blocks of trees; those beyond it are recorded and not shown.

    Attributes:
        path: of the file.
        process_name: what the process is.

    Raises:
        OSError: the file cannot be made, or there is no room for it. Its whole size is taken at once: a disk that is
            full later cannot end the process.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        process_name: str,
        metadata: Mapping[str, str] | None = None,
        process_started_ns: int | None = None,
        ring_bytes: int = DEFAULT_RING_BYTES,
        num_slots: int = 512,
    ) -> None:
        self.path = Path(path)
        self.process_name = process_name
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._attached: dict[str, Timing] = {}
        self._writers: dict[str, TreeWriter] = {}
        self._has_told_of_gauge = False
        own = {"process_name": process_name, "host": host_name(), PLACE: process_place()}
        own["num_cpus"] = str(num_usable_cores())
        text = json.dumps(own | dict(metadata or {})).encode()
        sizes = layout.RecordSizes.of(num_slots=num_slots, ring_bytes=ring_bytes, metadata_bytes=len(text))
        started_ns = process_start_ns() if process_started_ns is None else process_started_ns
        # Others see it once it is whole.
        temporary = LiveFolder.being_made(self.path)
        try:
            self._map: mmap.mmap | None = _map_new_file(temporary, sizes.file_size)
            self._memory: RecordMemory | None = RecordMemory(self._map, sizes, _string_adder())
            self._memory.write_header(anchor_now(), started_ns, is_compiled=_is_compiled(), metadata=text)
            self._memory.prepare_ring()
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _files.add(self)

    def attach(self, timing: Timing, component: str, *, leaves_room: bool = False) -> None:
        """Show what a Timing has recorded and records from now on, as the tree of `component`, with its title.

        A Timing that had this name before is let go.

        Args:
            timing: what to show.
            component: the name of its tree.
            leaves_room: whether it takes slots of the first half only: those behind are for Timings without this mark,
                whenever their blocks come.

        Raises:
            TimingError: it is shown under another name, or by another file.
        """
        with self._lock:
            if self._map is None or self._memory is None:
                return
            recorder: Any = timing._recorder
            if recorder.is_attached and self._attached.get(component) is not timing:
                names = [name for name, other in self._attached.items() if other is timing]
                where = f"as {names[0]!r}" if names else "by another record file"
                raise TimingError(
                    f"the Timing {timing.name!r} is shown {where} already, and cannot be shown as {component!r}, too;"
                    " allowed is one place for each Timing: close that file first, or record with another Timing"
                )
            self._detach(component)
            num_slots = self._memory.num_slots // (2 if leaves_room else 1)
            if isinstance(recorder, Recorder):
                self._writers[component] = TreeWriter(self._memory, recorder, component, timing.name, num_slots)
            else:
                recorder.attach(self._map, component, timing.name, num_slots)
            self._attached[component] = timing

    def write_tree(self, component: str, tree: TreeNode) -> None:
        """Let the tree of an attached Timing that records nothing itself be as this one; `tree` stays as it is."""
        with self._lock:
            timing, writer = self._attached.get(component), self._writers.get(component)
            if timing is None or self._memory is None:
                return
            timing._recorder.adopt(_without_figures(tree), is_parallel=False)  # it gets slots for what is new
            if writer is not None:
                writer.flush()
            if self._memory.begin():
                try:
                    self._memory.write_tree(component, tree)
                finally:
                    self._memory.end()

    def end_tree(self, component: str, ended_ns: int) -> None:
        """Let a tree be as it is from now on: its root lasts until `ended_ns`, on the clock of blocks."""
        with self._lock:
            if component not in self._attached:
                return
            self._detach(component)
            if self._memory is not None and self._memory.begin():
                try:
                    self._memory.end_root(component, ended_ns)
                finally:
                    self._memory.end()

    def set_gauge(self, name: str, value: float) -> None:
        """Set a gauge; NaN is ignored.

        Raises:
            TimingError: `value` is no number.
        """
        number = gauge_number(value)
        if number == number:
            self.add_to_gauge(name, number, time.time_ns())

    def add_to_gauge(self, name: str, number: float, set_ns: int) -> None:
        """Set a gauge to what `gauge_number` returned, if that is no NaN, at a moment of the wall clock."""
        memory = self._memory
        if memory is not None and not memory.set_gauge(name, number, set_ns):
            self._tell_of_gauge(name)

    def merge_gauge(self, name: str, other: GaugeNode) -> None:
        """Add what somebody else has recorded of a gauge."""
        has_room = True
        with self._lock:
            if self._memory is not None and self._memory.begin():
                try:
                    has_room = self._memory.merge_gauge(name, other)
                finally:
                    self._memory.end()
        if not has_room:
            self._tell_of_gauge(name)

    def forget_gauges(self, names: Iterable[str]) -> None:
        """Begin anew with these gauges when they are next set; until then the file has what they were."""
        with self._lock:
            if self._memory is not None and self._memory.begin():
                try:
                    self._memory.forget_gauges(names)
                finally:
                    self._memory.end()

    @property
    def num_nodes_dropped(self) -> int:
        """How many blocks there was no room for."""
        with self._lock:
            return 0 if self._memory is None else self._memory.num_nodes_dropped

    def flush(self) -> None:
        """Write what does not write itself: names of threads; of the recorder in pure Python all that is new."""
        with self._lock:
            if self._memory is None:
                return
            for writer in self._writers.values():
                writer.flush()
            if self._memory.begin():
                try:
                    self._memory.write_gauges()
                    self._memory.write_thread_names(thread_names())
                    self._memory.mark_flushed(anchor_now().monotonic_ns)
                    self._memory.prepare_ring()
                finally:
                    self._memory.end()

    def close(self) -> None:
        """Write everything for the last time and mark the file as whole; the Timings record on in their own memory."""
        with self._lock:
            if self._memory is None or self._map is None:
                return
            for component in list(self._attached):
                self._detach(component)  # first: what they record from now on is not in the file
            self.flush()
            self._memory.mark_closed(anchor_now())
            self._let_go()

    def _tell_of_gauge(self, name: str) -> None:
        # Not under the lock: handlers of the log have locks of their own, and may set gauges.
        with self._lock:
            is_known, self._has_told_of_gauge = self._has_told_of_gauge, True
            limit = 0 if self._memory is None else self._memory.num_gauges
        if not is_known:
            logger.warning(
                "The gauge %r of %s is not recorded, nor are further new ones: there is room for %d gauges in a "
                "process. Set fewer of them, with names that come again",
                *(name, self.process_name, limit),
            )

    def _let_go(self) -> None:
        for component in list(self._attached):
            self._detach(component)
        if self._memory is not None and self._map is not None:
            self._memory.release()
            self._map.close()
        self._memory = self._map = None

    def _detach(self, component: str) -> None:
        timing = self._attached.pop(component, None)
        writer = self._writers.pop(component, None)
        if writer is not None:
            writer.flush()
            writer.detach()
        elif timing is not None:
            recorder: Any = timing._recorder
            recorder.detach()

    def _leave_to_parent(self) -> None:
        self._lock = threading.RLock()
        for writer in self._writers.values():
            writer.detach()
        for component in set(self._attached) - set(self._writers):
            recorder: Any = self._attached[component]._recorder
            recorder.detach()
        self._attached.clear()
        self._writers.clear()
        self._let_go()


def _without_figures(source: TreeNode) -> TreeNode:
    tree = TreeNode(source.key)
    stack = [(tree, source)]
    while stack:
        node, other = stack.pop()
        for key, child in other.children.items():
            node.children[key] = TreeNode(key)
            stack.append((node.children[key], child))
    return tree


def _string_adder() -> Callable[[Any, str], int] | None:
    """Return the core's, which adds strings itself, and which no thread can come between."""
    if not _is_compiled():
        return None
    from sample_profiler.profiling.recorder import _core

    return _core.add_string


def _is_compiled() -> bool:
    from sample_profiler.profiling.recorder.choice import TWIN

    return TWIN == "compiled"


def _map_new_file(path: Path, size: int) -> mmap.mmap:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # EXCL: in a folder from elsewhere it may be a link
    try:
        descriptor = os.open(path, flags, 0o644)
    except FileExistsError:  # a process of this number was killed
        path.unlink()
        descriptor = os.open(path, flags, 0o644)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


_files: weakref.WeakSet[RecordFile] = weakref.WeakSet()


def _leave_files_to_parent() -> None:
    for file in list(_files):
        file._leave_to_parent()
    _files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_files_to_parent)
