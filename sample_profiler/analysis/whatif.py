"""What a faster stage would give, from what a slower one costs.

A stage is made slower by a known share of its own time, and how much longer a frame takes then is measured. If a frame
takes x of its time longer for each 1 of the stage's, the stage has the weight x: one that is on the way of every frame
and shares it with nobody has 1, one that is always waited for by nobody has 0. Making it faster gives back in the same
proportion (Curtsinger and Berger 2015, "Coz: finding code that counts with causal profiling", where everything else is
slowed instead), until something else becomes the limit: a frame takes at least what each other component works for it,
and what all of them together need of the processors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.component_id import BATCHER, INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER
from sample_profiler.vocabulary import ENV_STEP, HANDLE_POLICY_STEP, TRAIN

__all__ = [
    "STAGE_BLOCKS",
    "Ceiling",
    "StageWeight",
    "ceiling",
    "gain",
    "median_ceiling",
    "median_interval",
    "stage_weight",
]

STAGE_BLOCKS = {
    "env": {ROLLOUT_WORKER: ENV_STEP},
    "inference": {INFERENCE_WORKER: HANDLE_POLICY_STEP, ROLLOUT_WORKER: HANDLE_POLICY_STEP},
    "learner": {LEARNER: TRAIN},
}
"""The block that is a stage, by the kind of component that has it."""

_KINDS = {
    ROLLOUT_WORKER: "rollout workers",
    INFERENCE_WORKER: "inference",
    LEARNER: "learner",
    BATCHER: "batcher",
}
_LEAST = 1e-3
_MOST_OUTSIDE = 0.05  # of all intervals miss what they are of


@dataclass(frozen=True)
class StageWeight:
    """How much of the time of a frame hangs on a stage.

    Attributes:
        stage: its name.
        weight: 0 to about 1; the median of the pairs, so that one in which the machine did other things does not count.
        interval: ends of the 95 % interval of that median (`median_interval`); None: fewer than six pairs have none.
        num_pairs: that it rests on.
    """

    stage: str
    weight: float
    interval: tuple[float, float] | None
    num_pairs: int


@dataclass(frozen=True)
class Ceiling:
    """What bounds throughput once a stage is faster.

    Attributes:
        gain: by which share throughput can grow at most.
        limit: what is the limit then, in words.
    """

    gain: float
    limit: str


def ceiling(facts: RunFacts, stage: str, speedup: float) -> Ceiling:
    """Return how much a faster stage can give until something else is the limit.

    Args:
        facts: of the run as it is, over a while.
        stage: one of `STAGE_BLOCKS`.
        speedup: how many times as fast the stage becomes.
    """
    saved = 1 - 1 / speedup
    if facts.is_serial:  # one thing after the other: what a stage takes less, a frame takes less
        own = sum(load.blocks.get(STAGE_BLOCKS[stage].get(load.kind, ""), 0.0) for load in facts.components)
        return Ceiling(1 / max(1 - saved * own, _LEAST) - 1, "the rest of the process")
    needs: dict[str, float] = {}
    others = _cores_of_others(facts)
    cores = others - (_cores_of_games(facts, others) * saved if stage == "env" else 0.0)
    cores += _cores_without_stage(facts)
    for kind, name in _KINDS.items():
        loads = facts.of_kind(kind)
        works = []
        for load in loads:
            block = STAGE_BLOCKS[stage].get(kind)
            own = load.blocks.get(block, 0.0) * saved if block else 0.0
            # Ready and without a processor is no work: it goes away when there is more room.
            working = max(0.0, load.busy - load.starved_share) / load.busy if load.busy else 0.0
            works.append((load.busy - own) * working)
            cores += (load.cpu or 0.0) * (1 - own / load.busy if load.busy else 1.0)
        if works:
            needs[name] = fmean(works)
    if facts.num_cores and all(load.cpu is not None for load in facts.components):
        needs["the processors"] = cores / facts.num_cores
    limit, need = max(needs.items(), key=lambda item: item[1], default=("nothing", 0.0))
    return Ceiling(max(0.0, 1 / max(need, _LEAST) - 1), limit)


def median_ceiling(looks: Sequence[RunFacts], stage: str, speedup: float) -> Ceiling:
    """Return the median of the `ceiling` of several looks at a run: what others do on the machine comes and goes.

    Args:
        looks: at the run as it is, at least one; of two in the middle, the one that leaves more room counts.
        stage: one of `STAGE_BLOCKS`.
        speedup: how many times as fast the stage becomes.
    """
    ceilings = sorted((ceiling(facts, stage, speedup) for facts in looks), key=lambda each: each.gain)
    return ceilings[len(ceilings) // 2]


def _cores_of_others(facts: RunFacts) -> float:
    """Return how many cores others than the components use: games in processes of their own, and other programs."""
    if facts.machine_busy is None or not facts.num_cores:
        return 0.0
    return max(0.0, facts.machine_busy * facts.num_cores - sum(load.cpu or 0.0 for load in facts.components))


def _cores_without_stage(facts: RunFacts) -> float:
    """Return how many cores the Runner and Evaluators use, as much as before whichever stage is faster."""
    return sum(load.cpu or 0.0 for load in facts.components if load.kind not in _KINDS)


def _cores_of_games(facts: RunFacts, others: float) -> float:
    """Return how many of the cores of others games of workers use: they work while environments step.

    Args:
        facts: of the run.
        others: cores that others than the components use. Of a recording that does not tell games apart, all of them.
    """
    games = [load.children_cpu for load in facts.workers]
    known = [cores for cores in games if cores is not None]
    return min(others, sum(known)) if len(known) == len(games) else others


def stage_weight(stage: str, pairs: Sequence[tuple[float, float]], share: float) -> StageWeight:
    """Return the weight of a stage.

    Args:
        stage: its name.
        pairs: throughput without and with the slowdown, taken one after the other.
        share: of the stage's own time that was added.

    Raises:
        ValueError: there are no pairs, or no slowdown.
    """
    if not pairs or share <= 0:
        raise ValueError("a weight takes pairs of measurements, and a slowdown above 0")
    weights = [(base / slowed - 1) / share for base, slowed in pairs]
    return StageWeight(stage, median(weights), median_interval(weights), len(weights))


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of the 95 % interval of the median; None: fewer than six values have none.

    It covers what it promises however the values are distributed: of as many values as lie outside of it on one side,
    so few would be below the median by chance (Conover 1999, "Practical Nonparametric Statistics", section 3.2).

    Args:
        values: measurements that know nothing of each other.
    """
    num_outside, probability = 0, 0.0
    while (probability := probability + 2 * math.comb(len(values), num_outside) / 2 ** len(values)) <= _MOST_OUTSIDE:
        num_outside += 1
    if not num_outside:
        return None
    ordered = sorted(values)
    return ordered[num_outside - 1], ordered[-num_outside]


def gain(weight: float, speedup: float) -> float:
    """Return by which share throughput grows if a stage of this weight becomes `speedup` times as fast."""
    left = 1 - min(max(weight, 0.0), 1.0) * (1 - 1 / speedup)
    return 1 / left - 1 if left > 0 else math.inf
