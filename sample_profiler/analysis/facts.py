"""The figures of a run that a verdict rests on, in shares of the wall time and in cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from sample_profiler.analysis.accounts import ComponentAccount, account
from sample_profiler.analysis.work_split import Sleeps, sleeps_of
from sample_profiler.component_id import LEARNER, ROLLOUT_WORKER, ComponentId
from sample_profiler.profiling.record.process_record import PROCESS_GAUGES, ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.vocabulary import (
    CHILDREN_CPU_S,
    FRAMES,
    MACHINE_BUSY_S,
    MACHINE_CORES,
    MAIN_LOOP,
    NUM_THREADS,
    QUOTA_CORES,
    QUOTA_PERIODS,
    QUOTA_PERIODS_HELD_UP,
    STOOD_STILL_S,
    TRAIN,
    WAIT,
)

__all__ = ["ComponentLoad", "ProcessorLimits", "RunFacts", "StartSteps", "mean_share", "median_of_others", "run_facts"]

_MOST = 2**31  # of what a flag counts
_HUGE = 2.0**63  # no figure of a run is


@dataclass(frozen=True)
class ComponentLoad:
    """How busy one component was.

    Attributes:
        name: of the component.
        kind: what its name begins with, such as "RolloutWorker".
        account: where its time went.
        busy: share of the wall in which it worked.
        waits: shares of the wall, by whom it waited for.
        blocks: shares of the wall of the blocks below its `main_loop` by path, waits left out.
        counts: passes through these blocks.
        cpu: processor time of its process per second of wall: cores. None: not known.
        starved: threads that were ready and had no processor, on average; None: not known.
        gauges: latest values by name.
        children_cpu: the same of what its process has started, such as games; None: not known.
        system: what of `cpu` the system took on its behalf, as for files; None: not known.
        asleep, queued: shares of the wall in which it worked and its main thread could not have gone on, or could have
            and had no processor; None: not known.
        device: shares of the wall for which an accelerator worked on what a block gave it, by path of the block; empty
            where that was not measured. Its mean over the passes that it has done counts for all.
    """

    name: str
    kind: str
    account: ComponentAccount
    busy: float
    waits: dict[str, float]
    blocks: dict[str, float]
    counts: dict[str, int]
    cpu: float | None
    starved: float | None
    gauges: dict[str, float]
    device: dict[str, float] = field(default_factory=dict)
    children_cpu: float | None = None
    asleep: float | None = None
    queued: float | None = None
    system: float | None = None

    @property
    def idle_share(self) -> float | None:
        """For which share of the wall it slept within its work while nothing of its own computed either; None: unknown.

        Threads of its process, and what that has started, are what it may have slept for: cores are what these want.
        """
        if self.asleep is None:
            return None
        threads = max(0.0, (self.cpu or 0.0) - max(0.0, self.busy - self.asleep - (self.queued or 0.0)))
        return max(0.0, self.asleep - threads - (self.children_cpu or 0.0))

    @property
    def starved_share(self) -> float:
        """For which share of the wall one of its threads is ready and has no processor, averaged over them.

        A process that does not tell how many it has, has at least as many as are ready on average.
        """
        starved = self.starved or 0.0
        return starved / max(1.0, self.gauges.get(NUM_THREADS, (self.cpu or 0.0) + starved))

    def seconds_per_pass(self, block: str) -> float:
        """Return how long a block takes on average; 0 without passes."""
        count = self.counts.get(block, 0)
        return self.blocks.get(block, 0.0) * self.account.wall_s / count if count else 0.0

    def device_seconds_per_pass(self, block: str) -> float:
        """Return how long an accelerator works on what a block gives it, on average; 0 where that was not measured."""
        count = self.counts.get(block, 0)
        return self.device.get(block, 0.0) * self.account.wall_s / count if count else 0.0


@dataclass(frozen=True)
class ProcessorLimits:
    """What a run may use of the processors of its machine.

    Attributes:
        machine_cores: that the machine has; None: not known.
        quota_cores: that it may use at most, in parts of cores, too; None: it has no quota.
        held_up: share of the quota's periods, of those with anything to do, in which the run stood still at the end.
    """

    machine_cores: int | None = None
    quota_cores: float | None = None
    held_up: float = 0.0


_NO_LIMITS = ProcessorLimits()


@dataclass(frozen=True)
class StartSteps:
    """What a worker stepped before its run was steady.

    Attributes:
        num_first, first_s: steps of an environment before the first rollout, at random, and how long they took.
        num_later, later_s: steps of a group of environments in rollouts.
        resets_s: how long resetting environments took, before all steps and in those of rollouts.
    """

    num_first: int = 0
    first_s: float = 0.0
    num_later: int = 0
    later_s: float = 0.0
    resets_s: float = 0.0

    @property
    def seconds(self) -> float:
        """How long all of them took."""
        return self.first_s + self.later_s


_NO_STEPS = StartSteps()


@dataclass(frozen=True)
class RunFacts:
    """A run over some window of time.

    Attributes:
        seconds: length of the window.
        start_s: what the run took before the window began; 0 if that is not known.
        fps: frames trained on per second in it, without the time for which the run stood still; None: not known.
        num_cores: that the run may use; None: not known.
        machine_busy: share of the time of these cores that anybody used; None: not known.
        is_serial: whether all components share one process.
        components: all but the timers.
        config: values of the run's flags.
        is_steady: False where the window is a whole run that was over before it was steady; `start_s` is then a part
            of it.
        stood_still_s: seconds of the window for which the run was suspended. They are in the blocks that were open.
        sleeps: what the components slept for, by their kind.
        limits: what the run may use of the machine's processors.
        start: what the worker that stepped for longest stepped before the window.
    """

    seconds: float
    start_s: float
    fps: float | None
    num_cores: int | None
    machine_busy: float | None
    is_serial: bool
    components: tuple[ComponentLoad, ...]
    config: dict[str, Any] = field(default_factory=dict)
    is_steady: bool = True
    stood_still_s: float = 0.0
    sleeps: Sleeps = field(default_factory=dict)
    limits: ProcessorLimits = _NO_LIMITS
    start: StartSteps = _NO_STEPS

    def of_kind(self, kind: str) -> list[ComponentLoad]:
        """Return the components of a kind."""
        return [component for component in self.components if component.kind == kind]

    @property
    def workers(self) -> list[ComponentLoad]:
        """The RolloutWorkers."""
        return self.of_kind(ROLLOUT_WORKER)

    @property
    def learners(self) -> list[ComponentLoad]:
        """The Learners."""
        return self.of_kind(LEARNER)

    @property
    def num_datasets(self) -> int:
        """How many datasets were trained on."""
        return sum(learner.counts.get(TRAIN, 0) for learner in self.learners)

    def flag(self, name: str, default: Any, least: int = 1) -> Any:
        """Return the value of a flag, or a default where it is not known, or is nothing that a run could be given.

        Args:
            name: of the flag.
            default: has the type that the value has, too.
            least: that it is where it is a whole number.
        """
        value = self.config.get(name)
        if type(value) is not type(default) or (type(value) is int and not least <= value <= _MOST):
            return default
        return value


def mean_share(components: Sequence[ComponentLoad], awaited: str) -> float:
    """Return the share of the wall for which components waited for somebody, averaged over them."""
    return fmean(component.waits.get(awaited, 0.0) for component in components) if components else 0.0


def median_of_others(values: Mapping[str, float], name: str) -> float | None:
    """Return the median of all values but one: what that one is compared with; None if there are no others."""
    others = [value for other, value in values.items() if other != name]
    return median(others) if others else None


def run_facts(session: Session) -> RunFacts:
    """Return the facts of a session, or of a `window` of one."""
    sleeps = sleeps_of(session)
    loads = [_load(record, name, sleeps) for record in session.processes for name in record.components]
    runner = next((load for load in loads if load.kind == "Runner"), None)
    seconds = runner.account.wall_s if runner else max((load.account.wall_s for load in loads), default=0.0)
    num_cores = session.machine.get("num_cpus")
    frames = runner.gauges.get(FRAMES) if runner else None
    busy_s = runner.gauges.get(MACHINE_BUSY_S) if runner else None
    stood_still_s = min(seconds, max(0.0, runner.gauges.get(STOOD_STILL_S, 0.0))) if runner else 0.0
    moving_s = seconds - stood_still_s
    return RunFacts(
        seconds=seconds,
        start_s=float(session.run.get("start_s") or 0.0),
        fps=frames / moving_s if frames is not None and moving_s > 0 else None,
        num_cores=num_cores,
        machine_busy=min(1.0, busy_s / (seconds * num_cores)) if busy_s is not None and seconds and num_cores else None,
        is_serial=sum(bool(record.components) for record in session.processes) == 1 and len(loads) > 1,
        components=tuple(loads),
        config=session.config,
        stood_still_s=stood_still_s,
        sleeps=sleeps,
        limits=_limits(runner.gauges) if runner else _NO_LIMITS,
    )


def _limits(gauges: Mapping[str, float]) -> ProcessorLimits:
    cores, quota = gauges.get(MACHINE_CORES, 0.0), gauges.get(QUOTA_CORES, 0.0)
    periods, held_up = gauges.get(QUOTA_PERIODS, 0.0), gauges.get(QUOTA_PERIODS_HELD_UP, 0.0)
    return ProcessorLimits(
        machine_cores=int(cores) if cores >= 1 else None,
        quota_cores=quota if quota > 0 else None,
        held_up=min(1.0, max(0.0, held_up / periods)) if periods > 0 else 0.0,
    )


def _load(record: ProcessRecord, name: str, sleeps: Sleeps) -> ComponentLoad:
    own = account(record, name, sleeps)
    wall_s = own.wall_s
    gauges = _gauges(record, name)
    cpu_s, delay_s, system_s = gauges.get("cpu_s"), gauges.get("run_delay_s"), gauges.get("system_s")
    children_s = gauges.get(CHILDREN_CPU_S)
    shares, counts, device = _blocks(record.trees[name], own.wall_ns)
    return ComponentLoad(
        name=name,
        kind=ComponentId.parse(name).kind,
        account=own,
        busy=own.share(sum(own.work_ns.values())),
        waits={key: own.share(part_ns) for key, part_ns in own.waits_ns.items()},
        blocks=shares,
        counts=counts,
        cpu=cpu_s / wall_s if cpu_s is not None and wall_s else None,
        starved=delay_s / wall_s if delay_s is not None and wall_s else None,
        gauges=gauges,
        device=device,
        children_cpu=children_s / wall_s if children_s is not None and wall_s else None,
        asleep=own.share(own.split.asleep_ns) if own.split is not None else None,
        queued=own.share(own.split.queued_ns) if own.split is not None else None,
        system=system_s / wall_s if system_s is not None and wall_s else None,
    )


def _gauges(record: ProcessRecord, component: str) -> dict[str, float]:
    """Return a component's gauges and those of its process, and no others: an environment may name its own alike.

    What is no number to count with, such as an infinite one, is as good as unknown.
    """
    own = {short: key for key, (owner, short) in record.gauge_owners().items() if owner == component}
    keys = own | {key: key for key in PROCESS_GAUGES if key in record.gauges}
    gauges = {short: record.gauges[key] for short, key in keys.items()}
    return {short: gauge.value for short, gauge in gauges.items() if gauge.count and abs(gauge.value) < _HUGE}


def _blocks(root: TreeNode, wall_ns: int) -> tuple[dict[str, float], dict[str, int], dict[str, float]]:
    shares: dict[str, float] = {}
    counts: dict[str, int] = {}
    device: dict[str, float] = {}
    loop = root.children.get(MAIN_LOOP, root)
    stack = [(child, child.key) for child in reversed(loop.children.values())]
    while stack:
        node, path = stack.pop()
        if node.key.startswith(WAIT):
            continue
        shares[path] = node.statistics.total_ns / wall_ns if wall_ns else 0.0
        counts[path] = node.statistics.count
        if node.device is not None and node.device.count and wall_ns:
            device[path] = node.device.total_ns / node.device.count * node.statistics.count / wall_ns
        stack.extend((child, f"{path}/{child.key}") for child in reversed(node.children.values()))
    return shares, counts, device
