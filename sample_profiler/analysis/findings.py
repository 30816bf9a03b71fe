"""What the rules of a verdict have in common: the figures of a judged run, what a gain is, and what a rule finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from sample_profiler.analysis.facts import ComponentLoad, RunFacts, mean_share
from sample_profiler.component_id import INFERENCE_WORKER
from sample_profiler.profiling.tree.render import printable
from sample_profiler.vocabulary import (
    CALCULATE_LOSSES,
    ENV_RESET,
    ENV_STEP,
    FOR_BATCHER,
    FOR_INFERENCE,
    FOR_LEARNER,
    FOR_RANKS,
    FORWARD_HEAD,
    HANDLE_POLICY_STEP,
    TRAIN,
    WAITING_GROUPS,
)

__all__ = [
    *("LITTLE", "MUCH", "NEARLY_ALL", "OWN_WORK", "SLEEP_WORDS", "Advice", "Cause", "Finding", "JudgedRun"),
    *("cores_in", "describe_blocks", "describe_sleeps", "largest_block", "percent"),
]

Cause = Literal[
    "not enough data",
    "start-up",
    "lost workers",
    "observers",
    "serial",
    "simulator",
    "launches",
    "quota",
    "one core",
    "rare slow steps",
    "slow environment",
    "slow worker",
    "too many threads",
    "too few threads",
    "batching",
    "policy lag",
    "taking turns",
    "buffers",
    "device transfer",
    "saving",
    "ranks",
    "all-reduce",
    "remote trajectories",
    "learner",
    "too many inference workers",
    "small inference batches",
    "inference",
    "waiting environments",
    "environments",
    "too few environments",
    "processor",
    "balanced",
]
"""What limits a run; "balanced" where nothing does more than the rest."""

SLEEP_WORDS = {
    "timer": "a moment to come (sleep)",
    "disk": "a disk",
    "network": "the network",
    "process": "another process",
    "lock": "a lock or another thread",
    "memory": "pages of memory",
}
"""What a thread sleeps for, of `vocabulary.SLEEPS`."""

LITTLE, MUCH, NEARLY_ALL = 0.15, 0.3, 0.8
"""Shares of the wall from which on a wait, or work, counts."""

OWN_WORK = 0.6
"""Share of the wall from which on a component on crowded processors works, not merely waits for one of them."""

"""The block in which actions are drawn: of an InferenceWorker, or of a RolloutWorker that draws its own."""

_SATURATED = 0.92  # of all cores: what is left is switching and waking up
_CROWDED = 0.8  # of all cores: components often wait for a processor while they hold what others wait for
_NEVER = 0.05  # of the wall: whoever waits for less than this sets the pace
_LEAST_LEFT = 0.2  # of the wall: what a component that waited for the rest of it works at least
_LEAST_STEPPING = 0.05  # of the wall: what a group of a worker is not waiting for memory at least
_CAUTION = 0.95  # what a change that gives nothing costs, and the noise
_NOISE = 0.1  # by which a run is faster than the one before it now and then; `certainty` has room for a slower one
_OPTIMISM = 0.15  # the model leaves out that fewer switches between processes make each of them faster
_LARGE_NETWORK_S = 0.02  # for the encoder's part of a minibatch: below that bfloat16 costs more than it saves
_LOSSES = f"{TRAIN}/{CALCULATE_LOSSES}"
_RESETS = f"{ENV_STEP}/{ENV_RESET}"
_MOSTLY = 0.5
_COMPUTES = 0.5  # of its work: a Learner that computes for less of it waits inside its blocks


@dataclass(frozen=True)
class Advice:
    """One thing to change.

    Attributes:
        change: as a flag with its value, or in words.
        why: what it does.
        fps: lowest and highest frames per second that are expected then; None: it cannot be told.
    """

    change: str
    why: str
    fps: tuple[float, float] | None = None


@dataclass(frozen=True)
class Finding:
    """What a rule that holds says: the parts of a Verdict."""

    cause: Cause
    component: str
    headline: str
    evidence: list[str]
    advice: list[Advice]


class JudgedRun:
    """The facts, and what several rules need of them."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.workers = facts.workers
        self.inference = facts.of_kind(INFERENCE_WORKER)
        self.learner = max(facts.learners, key=lambda load: load.busy, default=None)
        # Of several ranks, a quick one waits for the datasets of others instead of its own, however little it is ahead.
        waits = self.learner.waits if self.learner else {}
        self.learner_waits = waits.get(FOR_BATCHER, 0.0) + waits.get(FOR_RANKS, 0.0)
        self.worker_busy = fmean(load.busy for load in self.workers) if self.workers else 0.0
        self.waits_for_learner = mean_share(self.workers, FOR_LEARNER)
        self.waits_for_inference = mean_share(self.workers, FOR_INFERENCE)
        # Where there are no InferenceWorkers, the workers draw their actions themselves: --inference=worker.
        self.stepping, self.action_sampling = self.worker_share(ENV_STEP), self.worker_share(HANDLE_POLICY_STEP)
        self.inference_busy = max((load.busy for load in self.inference), default=self.action_sampling)
        # Environments in processes of their own count for the machine alone.
        self.is_saturated = facts.machine_busy is not None and facts.machine_busy >= _SATURATED
        self.is_crowded = facts.machine_busy is not None and facts.machine_busy >= _CROWDED
        self.num_envs = int(facts.flag("num_envs_per_worker", 1))
        self._busy_of_process = defaultdict[tuple[str, int], float](float)
        for load in facts.components:
            self._busy_of_process[_process_of(load)] += load.busy
        self.num_idle = 0.0
        if facts.machine_busy is not None and facts.num_cores:
            self.num_idle = facts.num_cores * (1 - facts.machine_busy)

    def worker_share(self, block: str) -> float:
        """Return the share of their wall for which workers are in a block, averaged over them."""
        return fmean(load.blocks.get(block, 0.0) for load in self.workers) if self.workers else 0.0

    @property
    def reset_share(self) -> float:
        """Which part of the time in which environments are stepped is that of their resets."""
        return self.worker_share(_RESETS) / self.stepping if self.stepping else 0.0

    @property
    def is_mostly_resetting(self) -> bool:
        """Whether most of the time in which environments are stepped is that of their resets."""
        return self.reset_share > _MOSTLY

    def describe_resets(self) -> list[str]:
        """Tell what resets take, if it is much of the time in which environments are stepped."""
        if self.reset_share <= MUCH:
            return []
        reset_s = fmean(load.seconds_per_pass(_RESETS) for load in self.workers)
        return [f"{percent(self.reset_share)} of it is resetting, {1000 * reset_s:,.1f} ms each time"]

    def part_of_process(self, load: ComponentLoad) -> float:
        """Return which part of what its process uses of the processors is a component's, as a share of the run's time.

        Components that share a process have of it what they work, and a process that was there for a part of the time
        counts for that part.
        """
        busy = self._busy_of_process[_process_of(load)]
        presence = min(1.0, load.account.wall_s / self.facts.seconds) if self.facts.seconds else 0.0
        return presence * (load.busy / busy if busy else 1.0)

    def own_work(self, load: ComponentLoad) -> float:
        """Return for which share of the wall a component works, on crowded processors without waiting for one."""
        if not self.is_crowded:
            return load.busy
        return max(0.0, load.busy - load.starved_share)

    def makes_unhindered(self, worker: ComponentLoad) -> float:
        """Return how many steps of its groups a worker would have made that never waited for memory."""
        waits = self._group_waits(worker.waits.get(FOR_LEARNER, 0.0))
        return worker.counts.get(ENV_STEP, 0) / max(1 - waits, _LEAST_STEPPING)

    @property
    def num_groups(self) -> int:
        """How many groups of a worker wait for the Learner each by itself, while others of it wait for actions.

        One where their waits are those of the worker: in a synchronous run all wait for one training, together; and who
        draws actions itself waits for nobody else.
        """
        if not self.inference or not self.facts.flag("async_rl", True):
            return 1
        return max(1, min(int(self.facts.flag("worker_num_splits", 2)), self.num_envs))

    @property
    def group_envs(self) -> float:
        """How many environments of a worker step together."""
        return self.num_envs / max(1, min(int(self.facts.flag("worker_num_splits", 2)), self.num_envs))

    @property
    def is_paced_by_learner(self) -> bool:
        """Whether the Learner works nearly all the time, and workers wait for it, though that may not show.

        The wait of a worker is one for the Learner only while none of its groups has memory to write to. While one of
        them is under way, all others may wait for the Learner, and the worker waits for actions. So a Learner that
        never waits itself is enough, unless it works for so long because it waits for a processor.
        """
        if self.learner is None or self.learner.busy < NEARLY_ALL:
            return False
        if self.waits_for_learner >= LITTLE:
            return True
        # On used-up processors one thread that waits for one holds up all others of the Learner.
        starved = (self.learner.starved or 0.0) if self.is_saturated else 0.0
        own_work = min(self.own_work(self.learner), self.learner.busy - starved)
        return self.num_groups > 1 and self.learner_waits < _NEVER and own_work >= OWN_WORK

    def describe_waits_for_learner(self) -> list[str]:
        """Tell how long workers wait for the Learner, and what of that their waits do not show."""
        evidence = [f"workers wait {percent(self.waits_for_learner)} of their time for it"]
        if self.waits_for_learner >= LITTLE:
            return evidence
        evidence[0] += " alone: while one of their groups is under way and others wait for it, they wait for actions"
        waiting = sum(load.gauges.get(WAITING_GROUPS, 0.0) for load in self.workers)
        if waiting:
            evidence.append(f"groups of environments that waited for it when last looked at: {waiting:.0f}")
        return evidence

    @property
    def is_learner_idling(self) -> bool:
        """Whether most of the Learner's work is neither computing nor want of a processor: it waits inside its blocks.

        It does so for a disk, a lock or another machine; for an accelerator, too, which is what that is there for.
        """
        if self.learner is None or self.learner.cpu is None or self.is_on_gpu:
            return False
        return self.learner.cpu < _COMPUTES * (self.learner.busy - self.learner.starved_share)

    @property
    def may_gain_by_bf16(self) -> bool:
        """Whether the network is large enough for bfloat16 to pay, and does not use it yet."""
        if self.learner is None or self.facts.flag("precision", "fp32") != "fp32":
            return False
        if self.is_on_gpu:  # in the time of its blocks there is no more than giving it work
            return self.learner.device_seconds_per_pass(_LOSSES) >= _LARGE_NETWORK_S
        if self.is_learner_idling or not self.learner.busy:
            return False
        has_processor = max(0.0, 1 - self.learner.starved_share / self.learner.busy)
        return self.learner.seconds_per_pass(f"{_LOSSES}/{FORWARD_HEAD}") * has_processor >= _LARGE_NETWORK_S

    @property
    def is_on_gpu(self) -> bool:
        """Whether the Learner trains on an accelerator: it measures that, or it was asked for."""
        return bool(self.learner and self.learner.device) or self.facts.flag("device", "auto") == "gpu"

    def gain(self, factor: float, certainty: float = 0.4) -> tuple[float, float] | None:
        """Return the throughput expected if what limits the run became so many times faster.

        Args:
            factor: of the throughput, at best.
            certainty: how much of the gain is there at worst.

        Returns:
            Lowest and highest: a twentieth below the worst, and a tenth above the best, which is the model's and as
            much again of what it gives, up to 15 %.
        """
        if self.facts.fps is None:
            return None
        best = max(1.0, factor)
        most = best * (1 + min(_OPTIMISM, best - 1)) * (1 + _NOISE)
        return self.facts.fps * (_CAUTION + (factor - 1) * certainty), self.facts.fps * most

    def describe_sleeps(self, *loads: ComponentLoad) -> list[str]:
        """Tell what a component sleeps for within its work, if it does for long: of several, who does for longest."""
        load = max(loads, key=lambda each: each.asleep or 0.0, default=None)
        if load is None or (load.asleep or 0.0) < LITTLE:
            return []
        sleeps = describe_sleeps(self.facts.sleeps.get(load.kind, {})) or "what this machine does not tell"
        return [f"{load.name} sleeps {percent(load.asleep or 0.0)} of the time in its work: for {sleeps}"]

    def room(self, wanted: float, saved: float = 0.0) -> float:
        """Return by which factor the throughput can grow before the processors are used up, `wanted` at most.

        Args:
            wanted: factor.
            saved: cores that the same throughput takes less then.
        """
        busy, cores = self.facts.machine_busy, self.facts.num_cores
        if busy is None:
            return wanted
        return min(wanted, 1 / max(busy - (saved / cores if cores else 0.0), 0.01))

    def room_beside_others(self, wanted: float) -> float:
        """Return the same where other programs go on as they are, for what makes the run wait and not compute."""
        if self.facts.machine_busy is None:
            return wanted
        used = sum(
            self.part_of_process(load) * ((load.cpu or 0.0) + (load.children_cpu or 0.0))
            for load in self.facts.components
        )
        return min(wanted, 1 + self.num_idle / max(used, 0.01))

    def sampling_room(self) -> float:
        """Return by which factor the throughput can grow before workers do not wait for the Learner any more."""
        return self.inference_room(1 / max(1 - self._group_waits(self.waits_for_learner), _LEAST_LEFT))

    def _group_waits(self, worker_waits: float) -> float:
        """Return for which share of the wall a group of a worker waits for the Learner.

        It waits for longer than the worker, which waits only while all of its groups do; at random moments, the shares
        of groups that know nothing of each other multiply.
        """
        return float(worker_waits ** (1 / self.num_groups))

    def inference_room(self, wanted: float) -> float:
        """Return by which factor the throughput can grow before InferenceWorkers are busy all the time."""
        busy = max(map(self.own_work, self.inference), default=0.0)
        return min(wanted, 1 / max(busy, 0.01))

    def learner_room(self, wanted: float) -> float:
        """Return by which factor the throughput can grow before the Learner is busy all the time."""
        return min(wanted, 1 / max(1 - self.learner_waits, 0.01))


def percent(value: float) -> str:
    """Return a share as evidence shows it; with a decimal where there is no more than that."""
    return f"{100 * value:.0f} %" if value == 0 or value >= 0.01 else f"{100 * value:.1f} %"


def describe_sleeps(sleeps: Mapping[str, float]) -> str:
    """Say what components of a kind sleep for within their work, the most first; empty: it is not told.

    Args:
        sleeps: shares of the looks at them.
    """
    seen = sum(sleeps.values())
    largest = sorted(sleeps.items(), key=lambda part: -part[1])
    return ", ".join(f"{SLEEP_WORDS[what]} {percent(share / seen)}" for what, share in largest if share >= 0.1 * seen)


def _process_of(load: ComponentLoad) -> tuple[str, int]:
    return load.account.process, load.account.pid


def cores_in(load: ComponentLoad, *blocks: str) -> float:
    """Return the cores that a component's blocks take: as much of its processor time as of its working time."""
    share = sum(load.blocks.get(block, 0.0) for block in blocks)
    return (load.cpu or 0.0) * min(1.0, share / load.busy) if load.busy else 0.0


def describe_blocks(load: ComponentLoad) -> str:
    """Name the blocks that take most of a component's time by themselves, without the blocks inside them."""
    return ", ".join(f"{name} {percent(share)}" for name, share in _largest_blocks(load)[:3] if share >= 0.01)


def largest_block(load: ComponentLoad) -> str:
    """Name the block that takes most of a component's time by itself; a component without blocks is named itself."""
    return next((name for name, _ in _largest_blocks(load)), load.name)


def _largest_blocks(load: ComponentLoad) -> list[tuple[str, float]]:
    own = dict(load.blocks)
    for path, share in load.blocks.items():
        outer = path.rpartition("/")[0]
        if outer:
            own[outer] -= share
    largest = sorted(own.items(), key=lambda block: -block[1])
    return [(printable(path.rpartition("/")[2]), share) for path, share in largest]
