"""`Timing`, the door to the recorder for code that holds an object, and `get_timing` for code that does not."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar

from sample_profiler.profiling.recorder.block import NOT_ENTERED, Block
from sample_profiler.profiling.recorder.choice import RECORDER_CLASS
from sample_profiler.profiling.recorder.pure import ClockNs, Recorder
from sample_profiler.profiling.tree.kinds import ADD_TIME, DEFAULT_WINDOW, TIMEIT, average_kind
from sample_profiler.profiling.tree.render import format_flat, format_tree
from sample_profiler.profiling.tree.statistics import NS_PER_S, DeviceStatistics
from sample_profiler.profiling.tree.tree import TreeNode

DEFAULT_NAME = "Profile"


class Timing:
    """Measures named blocks of code; blocks inside blocks become a tree.

    Blocks may be opened from any thread and asyncio task, and left in any order. What was recorded can be read,
    printed, merged and pickled at any time, also while blocks are open: these count with their open part.

    Args:
        name: The title of the tree.
        clock_ns: Returns integer nanoseconds that never go back; for tests.
    """

    _recorder_class: ClassVar[type[Recorder]] = RECORDER_CLASS

    def __init__(self, name: str = DEFAULT_NAME, *, clock_ns: ClockNs = time.perf_counter_ns) -> None:
        self.name = name
        self._use(self._recorder_class(clock_ns))

    def _use(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._fast_methods = recorder.fast_methods(partial(_with_device, weakref.ref(self)))
        for name, method in self._fast_methods.items():
            # What a subclass does instead is its own matter; its super() leads to the methods below.
            if getattr(type(self), name) is getattr(Timing, name):
                setattr(self, name, method)

    def add_time(self, key: str, *, device: bool = False) -> Block:
        """Return a block whose value is the sum of all its passes: ``with timing.add_time("env_step"):``.

        Entering it raises `TimingError` if the key has another kind under the same parent.

        Args:
            key: The name of the block.
            device: Whether to measure, too, how long the process's accelerator works on what the block gives it. That
                waits for nothing, and costs nothing in a process without one (see `device_clock`).
        """
        if self._fast_methods:  # called through a subclass's own method
            return self._fast_methods["add_time"](key, device=device)  # type: ignore[no-any-return]
        # Twice as quick as a constructor with arguments; NOT_ENTERED is all that a Block wants to know at first.
        block = Block()
        block.recorder = self._recorder
        block.key = key
        block.kind = ADD_TIME
        block.end_ns = NOT_ENTERED
        return _with_device(lambda: self, block) if device else block

    def timeit(self, key: str, *, device: bool = False) -> Block:
        """Return a block whose value is its last pass.

        Entering it raises `TimingError` if the key has another kind under the same parent. The arguments are those of
        `add_time`.
        """
        if self._fast_methods:
            return self._fast_methods["timeit"](key, device=device)  # type: ignore[no-any-return]
        block = Block()
        block.recorder = self._recorder
        block.key = key
        block.kind = TIMEIT
        block.end_ns = NOT_ENTERED
        return _with_device(lambda: self, block) if device else block

    def time_avg(self, key: str, average: int | None = None, *, device: bool = False) -> Block:
        """Return a block whose value is the mean of its latest passes.

        Entering it raises `TimingError` if the key has another kind under the same parent, or another window.

        Args:
            key: The name of the block.
            average: The number of passes, set by the first use of the key; None stands for that, or for 10.
            device: As in `add_time`.

        Raises:
            TimingError: `average` is not a whole number of at least 1.
        """
        if average is None:
            kind = self._recorder.windows.get(key) or average_kind(DEFAULT_WINDOW)
        else:
            kind = average_kind(average)
        block = self._recorder.make_block(key, kind)
        return _with_device(lambda: self, block) if device else block

    def record(self, key: str, start_ns: int, end_ns: int) -> None:
        """Add a pass that is over already, inside the block that is open now; its value is the sum of all passes.

        Args:
            key: The name of the block.
            start_ns: When it began, on the clock of this Timing, `time.perf_counter_ns`.
            end_ns: When it ended.

        Raises:
            TimingError: The key has another kind under the same parent, the end is before the start, or one of the two
                is no whole number of 64 bits.
        """
        self._recorder.record(key, start_ns, end_ns)

    def backdate(self, start_ns: int, key: str = "start_up") -> None:
        """Let the root count from an earlier moment; the time from there to its former start is a pass of a block.

        Args:
            start_ns: When the root began, such as the start of this process (see `process_start_ns`).
            key: The name of that block.
        """
        former_ns = self._recorder.start_ns
        if former_ns is not None and start_ns < former_ns:
            self._recorder.start_ns = start_ns
            self._recorder.record(key, start_ns, former_ns)

    def restart(self) -> None:
        """Begin anew with nothing recorded, where it is shown, too; blocks that are open end unrecorded.

        Keys keep their kinds.
        """
        self._recorder.restart()

    def mark_flow(self, number: int) -> None:
        """Note that a flow passes through the innermost open block; shown in timelines, nowhere else.

        Args:
            number: From `flows.flow_point`.
        """
        self._recorder.mark_flow(number)

    def add_device_time(self, path: tuple[str, ...], duration_ns: int) -> None:
        """Add how long an accelerator worked on one pass of a block.

        Args:
            path: The keys from the root to the block.
            duration_ns: Nanoseconds on the device's own line.
        """
        self._recorder.add_device_statistics(path, DeviceStatistics(count=1, total_ns=duration_ns))

    def add_unresolved(self, path: tuple[str, ...], num_passes: int) -> None:
        """Count passes of a block whose device time is not known."""
        self._recorder.add_device_statistics(path, DeviceStatistics(num_unresolved=num_passes))

    @property
    def is_shown(self) -> bool:
        """Whether a record file shows it; it can be in one at a time."""
        return self._recorder.is_attached

    def __getitem__(self, key: str) -> float:
        """Return the value of a key in seconds, summed over all parents.

        Raises:
            KeyError: No block has this key.
        """
        return self.snapshot().value_of_key_ns(key) / NS_PER_S

    def __contains__(self, key: object) -> bool:
        """Return whether a block has this key."""
        return key in self.snapshot().block_keys()

    def __iter__(self) -> Iterator[str]:
        """Yield the keys of all blocks, each once, parents first."""
        return iter(self.snapshot().block_keys())

    def snapshot(self) -> TreeNode:
        """Return everything recorded up to this moment as data that nobody changes any more.

        The root counts as a block that is open since this object was made.
        """
        return self._recorder.read()

    def tree_str(self) -> str:
        """Return the tree as the log shows it; values are seconds."""
        return format_tree(self.name, self.snapshot())

    def flat_str(self) -> str:
        """Return ``key: value`` of every key, joined by commas; values are seconds."""
        return format_flat(self.snapshot())

    def __str__(self) -> str:
        """Return the tree."""
        return self.tree_str()

    def __repr__(self) -> str:
        """Return the name and the values in one line."""
        return f"<Timing {self.name!r}: {self.flat_str()}>"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data: the name and the root's node.

        A node has ``count``, ``total``, ``min``, ``max``, ``last`` (seconds), ``histogram`` (passes by the lowest
        nanosecond of each bucket) and ``children`` (nodes by key); below the root also ``kind``; for ``time_avg``
        ``window`` and ``recent``; and ``is_parallel``, only where it is true.
        """
        return {"name": self.name, **self.snapshot().to_dict()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Timing:
        """Return a Timing with what `to_dict` described; it can record on.

        Raises:
            TimingError: The data is not such a description.
        """
        return cls._from_tree(str(plain.get("name", DEFAULT_NAME)), TreeNode.from_dict(plain))

    def merge(self, *others: Timing, is_parallel: bool = True) -> None:
        """Add what other Timings recorded, path by path; they stay as they are.

        Args:
            others: The Timings to add.
            is_parallel: Whether they ran beside this one, as worker processes do: what several have is then marked.

        Raises:
            TimingError: One key of one parent has two kinds or windows; that one and those after it are not added.
        """
        for tree in [other.snapshot() for other in others]:
            self._recorder.adopt(tree, is_parallel=is_parallel)

    @classmethod
    def merged(cls, name: str, timings: Iterable[Timing]) -> Timing:
        """Return a new Timing with what several recorded beside each other, such as all rollout workers.

        Raises:
            TimingError: One key of one parent has two kinds or windows.
        """
        merged = cls._from_tree(name, TreeNode())
        merged.merge(*timings)
        return merged

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as plain data, whole, without the clock; open blocks as they are now."""
        return _load_timing, (type(self), self.name, self.snapshot())

    @classmethod
    def _from_tree(cls, name: str, tree: TreeNode) -> Timing:
        new = cls(name)
        new._use(cls._recorder_class(time.perf_counter_ns, is_running=False))
        new._recorder.adopt(tree, is_parallel=False)
        return new


def _with_device(timing: Callable[[], Timing | None], block: Block) -> Block:
    from sample_profiler.profiling.device_clock import clock  # only processes that measure a device need it

    owner = timing()
    return block if owner is None else clock.make_device_block(owner, block)  # type: ignore[return-value]


def _load_timing(timing_class: type[Timing], name: str, tree: TreeNode) -> Timing:
    return timing_class._from_tree(name, tree)


_process_timing = Timing()
_current: ContextVar[Timing | None] = ContextVar("sample_profiler_current_timing", default=None)


def get_timing() -> Timing:
    """Return the Timing of the component that runs the current code, or the process's own outside of any.

    So a block in an environment nests under the ``env_step`` of its worker, without anything passed around.
    """
    return _current.get() or _process_timing


def set_timing(timing: Timing, *, process_wide: bool = False) -> Timing:
    """Make `timing` the one that `get_timing` returns, and return the one it returned until now.

    Args:
        timing: The Timing of the component that runs from now on.
        process_wide: False sets it for the current thread and task only; True sets it for all that have none of their
            own, as in a process that is one component, whose environments may start threads.
    """
    global _process_timing
    previous = get_timing()
    if process_wide:
        _process_timing = timing
    _current.set(None if timing is _process_timing else timing)
    return previous
