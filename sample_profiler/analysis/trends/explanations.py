"""What changed with the throughput: who needs longer for the same, and what for, or who took the processors.

A run is a ring, so when it becomes slower everybody else waits for the one who is why. Of the time that a frame takes
longer, the work of that one takes most, and its cost of a unit of work has grown most: where processors are used up,
what all others do takes longer, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from sample_profiler.analysis.trends.figures import PartFigures
from sample_profiler.analysis.trends.trend import TrendCause
from sample_profiler.component_id import BATCHER, INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER, ComponentId
from sample_profiler.profiling.tree.render import printable
from sample_profiler.vocabulary import ENV_STEP

__all__ = ["Explanation", "explain"]

_EXPLAINS = 0.3  # of the time that a frame takes more
_OTHERS = 0.1  # of the cores, and
_OTHERS_CORES = 0.25
_SHORT = 0.7  # of the cores busy: below that nobody takes them from anybody
_GETS_LESS = 0.8  # of the share of processor time that it wants
_HELD_UP = 0.15  # of the periods of a quota
_ALIKE, _CHANGED = 1.4, 1.15  # ratios of costs
_MOST_OF_IT = 0.6  # of a component's change, for a block to be named for it
_IS_AFFECTED = 0.5  # of the largest change of a worker


@dataclass(frozen=True)
class Explanation:
    """What changed with the throughput.

    Attributes:
        cause: in one term.
        components: whom it concerns, those that changed most first.
        headline: the end of a sentence on the throughput.
        evidence: what shows it, one sentence each.
        block: that changed most, by its path; empty: none.
    """

    cause: TrendCause
    components: tuple[str, ...]
    headline: str
    evidence: tuple[str, ...]
    block: str = ""


@dataclass(frozen=True)
class _Parts:
    """A run before and after a change."""

    before: PartFigures
    after: PartFigures
    num_cores: int

    @property
    def falls(self) -> bool:
        return self.after.fps < self.before.fps

    def growth(self, figure: Callable[[PartFigures], float]) -> float:
        """Return how a figure differs between the slower and the quicker part: larger ones are on the slower side."""
        slow, quick = (self.after, self.before) if self.falls else (self.before, self.after)
        return figure(slow) - figure(quick)

    def ratio(self, figure: Callable[[PartFigures], float]) -> float:
        """Return a figure of the slower part by that of the quicker one; 1: it is not known."""
        slow, quick = (self.after, self.before) if self.falls else (self.before, self.after)
        return figure(slow) / figure(quick) if figure(quick) > 0 and figure(slow) > 0 else 1.0

    def told(self, figure: Callable[[PartFigures], float], form: str) -> str:
        return f"{figure(self.after):{form}} instead of {figure(self.before):{form}}"


def explain(before: PartFigures, after: PartFigures, num_cores: int) -> Explanation:
    """Return what changed with the throughput.

    Args:
        before: the run in the part of its time before the throughput changed.
        after: and in the part after that.
        num_cores: that the run may use.
    """
    parts = _Parts(before, after, num_cores)
    found = _throttling(parts) or _another_program(parts) or _slower_processors(parts) or _component(parts)
    return found or Explanation("unknown", (), "no component, program or quota that changed with it is known", ())


def _throttling(parts: _Parts) -> Explanation | None:
    if parts.growth(lambda part: part.held_up) < _HELD_UP:
        return None
    headline = "the quota of processor time holds the run up" + ("" if parts.falls else " less")
    told = parts.told(lambda part: 100 * part.held_up, ".0f")
    return Explanation("throttling", (), headline, (f"the run stood still in {told} % of the quota's periods",))


def _another_program(parts: _Parts) -> Explanation | None:
    if parts.before.others is None or parts.after.others is None:
        return None
    grown = parts.growth(lambda part: part.others or 0.0)
    slow = parts.after if parts.falls else parts.before
    if grown <= 0 or (slow.busy or 0.0) < _SHORT * parts.num_cores:
        return None
    # Where they had used all of the processors before, they take hardly more, and the run gets less of what it wants.
    is_displaced = parts.ratio(_got) < _GETS_LESS and parts.ratio(_cpu_of_frame) < _ALIKE
    if grown < max(_OTHERS_CORES, _OTHERS * parts.num_cores) and not is_displaced:
        return None
    headline = f"other programs on this machine {'use' if parts.falls else 'leave'} the processors"
    evidence = (
        f"other programs use {parts.told(lambda part: part.others or 0.0, '.1f')} of {parts.num_cores} cores",
        f"threads of the run that are ready and have no processor: {parts.told(lambda part: part.waiting, '.1f')}",
    )
    return Explanation("another program", (), headline, evidence)


def _slower_processors(parts: _Parts) -> Explanation | None:
    """All components need longer for the same, alike, and so does the processor time of a frame."""
    costs = [_cost_ratio(parts, kind) for kind in (LEARNER, INFERENCE_WORKER, ROLLOUT_WORKER) if _names(parts, kind)]
    cpu_ratio = parts.ratio(_cpu_of_frame)
    if len(costs) < 2 or min(*costs, cpu_ratio) < _CHANGED or max(costs) > _ALIKE * min(costs):
        return None
    headline = "everything takes " + ("longer" if parts.falls else "less time") + ": the processors changed their speed"
    told = parts.told(lambda part: 1000 * _cpu_of_frame(part), ".2f")
    evidence = (
        f"a frame takes {told} ms of processor time; components need alike more or less for the same",
        "clock and heat of the processors, or what shares caches and memory with them, are not told to a run",
    )
    return Explanation("slower processors", (), headline, evidence)


def _component(parts: _Parts) -> Explanation | None:
    kinds = [kind for kind in (LEARNER, ROLLOUT_WORKER, INFERENCE_WORKER, BATCHER) if _names(parts, kind)]
    suspects = [kind for kind in kinds if _share_explained(parts, kind) >= _EXPLAINS]
    kind = max(suspects, key=lambda kind: _cost_ratio(parts, kind), default=None)
    if kind is None or _cost_ratio(parts, kind) < _CHANGED:
        return None
    return _of_workers(parts) if kind == ROLLOUT_WORKER else _of_others(parts, kind)


def _of_workers(parts: _Parts) -> Explanation:
    ratios = {name: parts.ratio(partial(_cost, name=name)) for name in _names(parts, ROLLOUT_WORKER)}
    most = max(ratios.values())
    affected = sorted(
        (name for name, ratio in ratios.items() if math.log(ratio) >= _IS_AFFECTED * math.log(most)),
        key=lambda name: -ratios[name],
    )
    one = affected[0]
    block = _changed_block(parts, one)
    is_some = len(affected) <= len(ratios) / 2
    whose = _listed(affected) if is_some else "all workers" if len(affected) == len(ratios) else "most workers"
    longer = f"{most:.1f} times as long" if parts.falls else f"{1 / most:.2f} of the time"
    told = parts.told(lambda part: 1000 * _cost(part, one), ".2f")
    evidence = [f"{one} works {told} ms for a step of a group of environments", *_describe_computing(parts, one)]
    if block:
        evidence.append(_describe_block(parts, one, block))
    if is_some:
        others = [ratio for name, ratio in ratios.items() if name not in affected]
        evidence.append(f"the other {len(others)} take {fmean(others):.2f} times what they took")
    headline = f"steps of the environments of {whose} take {longer}"
    return Explanation("slow worker" if is_some else "environments", tuple(affected), headline, tuple(evidence), block)


def _of_others(parts: _Parts, kind: str) -> Explanation:
    names = sorted(_names(parts, kind), key=lambda name: -parts.ratio(partial(_cost, name=name)))
    name = names[0]
    block = _changed_block(parts, name)
    ratio = parts.ratio(partial(_cost, name=name))
    where = f" in {printable(block)}" if block else ""
    longer = f"{ratio:.1f} times as long" if parts.falls else f"{1 / ratio:.2f} of the time"
    told = parts.told(lambda part: 1000 * _cost(part, name), ".3f")
    busy = parts.told(lambda part: 100 * part.work[name], ".0f")
    evidence = [f"{name} works {told} ms for each frame, {busy} % of the time", *_describe_computing(parts, name)]
    if block:
        evidence.append(_describe_block(parts, name, block))
    causes: dict[str, TrendCause] = {LEARNER: "learner", INFERENCE_WORKER: "inference", BATCHER: "batching"}
    return Explanation(causes[kind], (name,), f"{name} works {longer} for each frame{where}", tuple(evidence), block)


def _describe_computing(parts: _Parts, name: str) -> list[str]:
    """Tell what of its cost a process computes: the rest it sleeps, or waits for a processor."""
    if not all(part.computing.get(name) and part.work[name] > 0 for part in (parts.before, parts.after)):
        return []
    told = parts.told(lambda part: 1000 * _cost(part, name) * part.computing[name] / part.work[name], ".2f")
    return [f"its process computes {told} ms for that; the rest it sleeps, or waits for a processor"]


def _got(part: PartFigures) -> float:
    """Return the share of the processor time that the run wanted which it had."""
    wanted = part.cpu + part.waiting
    return part.cpu / wanted if wanted > 0 else 1.0


def _cpu_of_frame(part: PartFigures) -> float:
    return part.cpu / part.fps if part.fps > 0 else 0.0


def _names(parts: _Parts, kind: str) -> list[str]:
    """Return the components of a kind that were there before and after."""
    return [name for name in parts.before.work if name in parts.after.work and ComponentId.parse(name).kind == kind]


def _cost(part: PartFigures, name: str) -> float:
    """Return the seconds that a component works for a unit: a step of a group of a worker, a frame of any other."""
    rate = part.passes[name].get(ENV_STEP, 0.0) if ComponentId.parse(name).kind == ROLLOUT_WORKER else part.fps
    return part.work[name] / rate if rate > 0 else 0.0


def _cost_ratio(parts: _Parts, kind: str) -> float:
    """Return the largest ratio of costs of a component of a kind."""
    return max(parts.ratio(partial(_cost, name=name)) for name in _names(parts, kind))


def _share_explained(parts: _Parts, kind: str) -> float:
    """Return which part of the time that a frame takes more the components of a kind work, on average over them."""
    if parts.before.fps <= 0 or parts.after.fps <= 0:  # nothing was trained on in one of them
        return 0.0
    names = _names(parts, kind)
    longer = parts.growth(lambda part: 1 / part.fps)
    return (
        0.0 if longer == 0 else parts.growth(lambda part: fmean(part.work[name] for name in names) / part.fps) / longer
    )


def _changed_block(parts: _Parts, name: str) -> str:
    """Return the block that explains most of what a component works more, with those in it; empty: none does."""
    changes = _changes(parts, name)
    total = sum(changes.values())
    best = ""
    while total > 0:
        inner = {path: _within(changes, path) for path in changes if path and path.rpartition("/")[0] == best}
        path = max(inner, key=lambda path: inner[path], default="")
        if not path or inner[path] < _MOST_OF_IT * total:
            return best
        best = path
    return best


def _changes(parts: _Parts, name: str) -> dict[str, float]:
    """Return by how much each block takes longer for a unit, without those in it."""

    def cost(part: PartFigures, path: str) -> float:
        return part.own[name].get(path, 0.0) * _cost(part, name) / part.work[name] if part.work[name] > 0 else 0.0

    paths = {*parts.before.own[name], *parts.after.own[name]}
    return {path: parts.growth(partial(cost, path=path)) for path in paths}


def _within(changes: Mapping[str, float], path: str) -> float:
    return sum(change for other, change in changes.items() if other == path or other.startswith(f"{path}/"))


def _describe_block(parts: _Parts, name: str, path: str) -> str:
    def mean_s(part: PartFigures) -> float:
        share = _within(part.own[name], path)
        rate = part.passes[name].get(path, 0.0)
        return share / rate if rate > 0 else 0.0

    told = parts.told(lambda part: 1000 * mean_s(part), ".2f")
    return f"a pass through {printable(path)} of {name} takes {told} ms"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
