"""What one process recorded, as plain data: what a record file held at one moment, or what a session has kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sample_profiler.profiling.record.events import Event, Events
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.profiling.tree.tree import TreeNode

__all__ = [
    *(
        "PROCESS_GAUGES",
        "SILENT_S",
        "THREAD_TIMERS",
        "TIMERS",
        "Anchor",
        "OpenBlock",
        "ProcessRecord",
        "ProcessState",
        "describe_dropped_nodes",
    ),
    "is_timers",
]

TIMERS = "timers"
"""The tree with what code without a Timing at hand has recorded (`sample_profiler.timers`); no component."""
PROCESS_GAUGES = (
    *("memory_mib", "private_memory_mib", "cpu_s", "system_s", "run_delay_s", "main_cpu_s", "main_run_delay_s"),
)
"""Gauges that every process has, whoever its components are."""
SILENT_S = 120.0
"""For how long a process that cannot be seen counts as alive without a sign of it: file systems of networks show late
what is written elsewhere, and clocks of machines differ a little."""
THREAD_TIMERS = f"{TIMERS}."
"""How the names of such trees begin that are of a thread other than the main one."""


def is_timers(tree: str) -> bool:
    """Tell whether the tree of this name has timers, and is no component."""
    return tree == TIMERS or tree.startswith(THREAD_TIMERS)


def describe_dropped_nodes(process: str, number: int) -> str:
    """Return what people are told of blocks for which a record file had no room."""
    blocks = "1 block is" if number == 1 else f"{number:,} blocks are"
    return (
        f"{blocks} missing from the records of {process}, whose file is full: give blocks names that come again, "
        "without numbers in them"
    )


ProcessState = Literal["alive", "stopped", "gone", "ended", "unknown"]
"""Of a process: it runs; it was stopped (SIGSTOP, a debugger); it ended without closing its file, as when killed; it
closed its file; or it cannot be seen from here, as on another machine."""


class OpenBlock(NamedTuple):
    """A block that was open.

    Attributes:
        component: whose tree it is in.
        path: keys below the root of that tree, its own last.
        since_ns: when its oldest open pass began, on the monotonic clock.
        thread: number of the thread that is in it.
    """

    component: str
    path: tuple[str, ...]
    since_ns: int
    thread: int


class Anchor(NamedTuple):
    """One moment on three clocks, in nanoseconds.

    Attributes:
        monotonic_ns: the clock of all blocks.
        wall_ns: time since 1970.
        boot_ns: time since the machine was started, sleep included.
    """

    monotonic_ns: int
    wall_ns: int
    boot_ns: int


@dataclass
class ProcessRecord:
    """What one process recorded.

    Attributes:
        name: of the process, as it gave it.
        pid: its number on its machine.
        host: its machine; empty if not known.
        is_compiled: whether the compiled recorder wrote it.
        is_closed: whether it ended in order.
        state: how the process was when its file was read.
        process_started_ns: when it started, on the monotonic clock.
        read_ns: up to when open blocks count, on the monotonic clock: the moment of reading, or its end; for a process
            that was killed its latest sign of life.
        start_anchor: when the file was made.
        end_anchor: when it was closed; None: it was not.
        metadata: what it said of itself.
        trees: by component; the root's total is the time from its start to `read_ns`.
        titles: of those trees, by component.
        gauges: by name.
        events: its latest passes and flow points, in the order in which they ended; those of the pure-Python recorder
            are so block by block only. Empty where not asked for.
        paths: of each node: the component, then keys; `Event.node` is an index into it.
        thread_names: by number of the thread.
        num_events_lost: events that were overwritten before anybody read them.
        num_nodes_dropped: blocks for which there was no room.
        open_blocks: outer ones first.
        silent_s: of a process that cannot be seen: for how long nothing has come into its file; else None.
        rank: of the run that it belongs to, where several that train together are looked at as one.
    """

    name: str
    pid: int
    host: str
    is_compiled: bool
    is_closed: bool
    state: ProcessState
    process_started_ns: int
    read_ns: int
    start_anchor: Anchor
    end_anchor: Anchor | None
    metadata: dict[str, str] = field(default_factory=dict)
    trees: dict[str, TreeNode] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    gauges: dict[str, GaugeNode] = field(default_factory=dict)
    events: Sequence[Event] = field(default_factory=Events)
    paths: list[tuple[str, ...]] = field(default_factory=list)
    thread_names: dict[int, str] = field(default_factory=dict)
    num_events_lost: int = 0
    num_nodes_dropped: int = 0
    open_blocks: list[OpenBlock] = field(default_factory=list)
    silent_s: float | None = None
    rank: int = 0

    @property
    def seems_alive(self) -> bool:
        """Whether the process was there when its file was read, or, if it cannot be seen, still wrote into that."""
        return bool(self.is_alive) or (self.silent_s is not None and self.silent_s < SILENT_S)

    @property
    def is_alive(self) -> bool | None:
        """Whether the process was there when its file was read; None if that cannot be seen from here."""
        return None if self.state == "unknown" else self.state in ("alive", "stopped")

    @property
    def anchors(self) -> list[Anchor]:
        """The anchors there are, in order."""
        return [self.start_anchor] if self.end_anchor is None else [self.start_anchor, self.end_anchor]

    @property
    def components(self) -> list[str]:
        """The components with a tree, without the timers."""
        return [name for name in self.trees if not is_timers(name)]

    @property
    def timers(self) -> list[str]:
        """The trees of timers that have recorded something, or are about to: that of the main thread first."""
        is_open = {block.component for block in self.open_blocks}
        found = [name for name in self.trees if is_timers(name) and (self.trees[name].children or name in is_open)]
        return sorted(found, key=lambda name: name != TIMERS)

    @property
    def problems(self) -> list[str]:
        """What it could not record, one sentence each."""
        return [describe_dropped_nodes(self.name, self.num_nodes_dropped)] if self.num_nodes_dropped else []

    def gauge_owners(self) -> dict[str, tuple[str, str]]:
        """Return whose each gauge is, by its name, and what it is called there.

        ``component/name`` is a component's. All others, with slashes or without, are the process's: code without a
        Timing may call its gauges what it likes. Of these the owner is empty and the name is the whole.
        """
        components = set(self.components)
        owners = {}
        for name in self.gauges:
            owner, _, short = name.partition("/")
            owners[name] = (owner, short) if owner in components else ("", name)
        return owners

    def wall_ns(self, monotonic_ns: int) -> int:
        """Return a moment of the monotonic clock on the clock of the wall, by the nearest anchor before it."""
        anchor = self.start_anchor
        if self.end_anchor is not None and monotonic_ns >= self.end_anchor.monotonic_ns:
            anchor = self.end_anchor
        return anchor.wall_ns + monotonic_ns - anchor.monotonic_ns

    def monotonic_ns(self, wall_ns: int) -> int:
        """Return a moment of the wall's clock on the monotonic one, by the nearest anchor before it."""
        anchor = self.start_anchor
        if self.end_anchor is not None and wall_ns >= self.end_anchor.wall_ns:
            anchor = self.end_anchor
        return anchor.monotonic_ns + wall_ns - anchor.wall_ns

    def innermost_open_block(self, component: str) -> OpenBlock | None:
        """Return the block that a component sits in: of the innermost ones, the one entered last."""
        blocks = [block for block in self.open_blocks if block.component == component]
        outer = {(block.path[:-1], block.thread) for block in blocks}
        innermost = [block for block in blocks if (block.path, block.thread) not in outer]
        return max(innermost or blocks, key=lambda block: (block.since_ns, len(block.path)), default=None)
