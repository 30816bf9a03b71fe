"""Where the time of a component went: work, waiting for somebody, or unaccounted. The parts make the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sample_profiler.analysis.work_split import Sleeps, WorkSplit, sleeps_of, split_work
from sample_profiler.component_id import ComponentId
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.checks import MAX_SECONDS
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.vocabulary import (
    DECORRELATE,
    ENV_RESET,
    FOR_LEARNER,
    LOAD_CHECKPOINT,
    MAIN_LOOP,
    MAKE_ENV,
    MAKE_ENVS,
    MAKE_INFERENCE,
    START_UP,
    WAIT,
    WAIT_FOR_TRAJECTORIES,
    WAIT_POLICY,
)

__all__ = ["START_BLOCKS", "ComponentAccount", "account", "accounts", "awaited"]

START_BLOCKS = frozenset({START_UP, MAKE_ENVS, MAKE_ENV, MAKE_INFERENCE, ENV_RESET, DECORRELATE, LOAD_CHECKPOINT})
"""What components do before they take part in the run, at the top of their trees."""

_RUN_DELAY = "run_delay_s"
# The trees of a process that goes on are read one node after another: what is inside may be this much newer.
_READING_NS = 10_000_000

_NO_SLEEPS: Sleeps = MappingProxyType({})

# A RolloutWorker waits for slots, which the Learner gives back; an InferenceWorker for the Learner's first weights.
_AWAITED = {WAIT_FOR_TRAJECTORIES: FOR_LEARNER, WAIT_POLICY: FOR_LEARNER}


@dataclass(frozen=True)
class ComponentAccount:
    """The wall time of a component, in nanoseconds: ``wall = sum(work) + sum(waits) + unaccounted``, exactly.

    Attributes:
        component: whose.
        process: name of its process.
        pid: number of that.
        wall_ns: from the start of its process to its end, or to the moment of reading.
        work_ns: by top-level block, without the waits inside it.
        waits_ns: by whom it waited for.
        unaccounted_ns: outside of all blocks.
        run_delay_ns: how long all threads of its process together were ready and had no processor; that is part of
            whatever they were doing. None: not known.
        is_parallel: whether several threads or tasks recorded at once. If they recorded more than the wall, work and
            waits are scaled down to it.
        split: what its main thread did meanwhile; None: not known, as where components share a process.
    """

    component: str
    process: str
    pid: int
    wall_ns: int
    work_ns: dict[str, int]
    waits_ns: dict[str, int]
    unaccounted_ns: int
    run_delay_ns: int | None
    is_parallel: bool
    split: WorkSplit | None = None

    @property
    def wall_s(self) -> float:
        """The wall time in seconds."""
        return self.wall_ns / NS_PER_S

    @property
    def work(self) -> dict[str, float]:
        """Seconds of work by top-level block."""
        return _to_seconds(self.work_ns)

    @property
    def waits(self) -> dict[str, float]:
        """Seconds of waiting by whom for."""
        return _to_seconds(self.waits_ns)

    @property
    def work_s(self) -> float:
        """Seconds of all work."""
        return sum(self.work_ns.values()) / NS_PER_S

    @property
    def start_s(self) -> float:
        """Seconds of work before it took part in the run."""
        return sum(work_ns for block, work_ns in self.work_ns.items() if block in START_BLOCKS) / NS_PER_S

    @property
    def waits_s(self) -> float:
        """Seconds of all waits."""
        return sum(self.waits_ns.values()) / NS_PER_S

    @property
    def unaccounted_s(self) -> float:
        """Seconds outside of all blocks."""
        return self.unaccounted_ns / NS_PER_S

    @property
    def run_delay_s(self) -> float | None:
        """Seconds for which threads of its process had no processor; None: not known."""
        return None if self.run_delay_ns is None else self.run_delay_ns / NS_PER_S

    def share(self, part_ns: int) -> float:
        """Return what fraction of the wall a part is; 0 for a wall of nothing."""
        return part_ns / self.wall_ns if self.wall_ns else 0.0


def accounts(session: Session) -> list[ComponentAccount]:
    """Return the account of every component of every process, in the order of the session."""
    sleeps = sleeps_of(session)
    return [account(record, component, sleeps) for record in session.processes for component in record.components]


def account(record: ProcessRecord, component: str, sleeps: Sleeps = _NO_SLEEPS) -> ComponentAccount:
    """Return where the time of one component went.

    A block whose key begins with ``wait_`` is a wait, wherever it is in the tree, with all that is inside. The rest of
    each block below the root, or below its ``main_loop``, is work. The time of the root and of ``main_loop`` that is in
    no block is unaccounted. Of all blocks their totals count, also of a ``timeit`` or ``time_avg``.

    Args:
        record: of the component's process.
        component: one of `record.trees`.
        sleeps: of its run.

    Raises:
        KeyError: there is no such tree.
    """
    root = record.trees[component]
    work: dict[str, int] = {}
    waits: dict[str, int] = {}
    is_parallel = root.is_parallel
    for block in _top_blocks(root):
        is_parallel |= block.is_parallel
        waited_ns = _add_waits(block, waits)
        if not block.key.startswith(WAIT):
            # In other threads or tasks than the block's own, waits may be longer than the block.
            work[block.key] = work.get(block.key, 0) + max(0, block.statistics.total_ns - waited_ns)
    wall_ns = root.statistics.total_ns
    named_ns = sum(work.values()) + sum(waits.values())
    if named_ns > wall_ns:
        is_parallel |= named_ns - wall_ns > _READING_NS
        work, waits = _scale(work, waits, wall_ns, named_ns)
        named_ns = sum(work.values()) + sum(waits.values())
    kind = ComponentId.parse(component).kind
    delay = record.gauges.get(_RUN_DELAY)
    delay_s = delay.value if delay is not None and delay.count else -1.0
    return ComponentAccount(
        component=component,
        process=record.name,
        pid=record.pid,
        wall_ns=wall_ns,
        work_ns=work,
        waits_ns=waits,
        unaccounted_ns=wall_ns - named_ns,
        run_delay_ns=round(delay_s * NS_PER_S) if 0 <= delay_s <= MAX_SECONDS else None,
        is_parallel=is_parallel,
        split=None if is_parallel else split_work(record, sum(work.values()), sleeps.get(kind, {})),
    )


def awaited(key: str) -> str:
    """Return whom a block waits for, by its key: ``wait_inference`` is for ``inference``."""
    return _AWAITED.get(key, key.removeprefix(WAIT))


def _top_blocks(root: TreeNode) -> list[TreeNode]:
    blocks: list[TreeNode] = []
    for block in root.children.values():
        blocks += block.children.values() if block.key == MAIN_LOOP else [block]
    return blocks


def _add_waits(block: TreeNode, waits: dict[str, int]) -> int:
    """Add the outermost waits of a block to those by name, and return their sum."""
    waited_ns = 0
    stack = [block]
    while stack:
        node = stack.pop()
        if node.key.startswith(WAIT):
            name = awaited(node.key)
            waits[name] = waits.get(name, 0) + node.statistics.total_ns
            waited_ns += node.statistics.total_ns
        else:
            stack.extend(reversed(node.children.values()))
    return waited_ns


def _scale(
    work: Mapping[str, int], waits: Mapping[str, int], wall_ns: int, named_ns: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Scale all parts alike, so that together they are the wall to the nanosecond."""
    seen_ns = done_ns = 0
    scaled: list[dict[str, int]] = []
    for parts in (work, waits):
        scaled.append({})
        for key, part_ns in parts.items():
            seen_ns += part_ns
            share_ns = seen_ns * wall_ns // named_ns - done_ns
            scaled[-1][key] = share_ns
            done_ns += share_ns
    return scaled[0], scaled[1]


def _to_seconds(parts_ns: Mapping[str, int]) -> dict[str, float]:
    return {key: part_ns / NS_PER_S for key, part_ns in parts_ns.items()}
