"""The life of trajectories: how long each stage takes from their first step to the gradient, and how old they become.

Read from the latest events of a session, of ended runs the last ten seconds: components mark which slot they fill, put
into a dataset and train on (`profiling.record.flows`), so nothing more is recorded for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from sample_profiler.component_id import LEARNER, ComponentId, name_in_rank
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.flows import END, REQUEST, SLOT, START, STEP, WEIGHTS, read_flow_point
from sample_profiler.profiling.record.format import FLOW_POINT
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.vocabulary import TRAIN

__all__ = ["STAGES", "Life", "StageTimes", "find_lives", "slowest", "stage_times"]

STAGES = ("sampled", "on the way to a dataset", "at the Learner", "prepared", "trained on")
"""From the first step to the last; until the dataset that it is in; until the Learner takes that; and so on."""

_EVENT = np.dtype([("start", "<i8"), ("end", "<i8"), ("node", "<u4"), ("thread", "<u4"), ("flow", "<u8")])
_POLICY_SHIFT = 40  # of the payload of weights
_DEFAULT_ROLLOUT = 32
_NUM_SLOWEST = 5
_TAKEN = 3  # which of a life's moments that is


@dataclass(frozen=True)
class Life:
    """One trajectory, from its first step to the end of the training on it.

    Attributes:
        slot: that it is in.
        worker: process that has sampled it.
        moments_ns: when it began, was full, was in a dataset, was taken by the Learner, began to be trained on, and had
            been trained on; on the monotonic clock.
        num_published: how often its policy's weights were published between its first step and the training on it.
    """

    slot: int
    worker: str
    moments_ns: tuple[int, ...]
    num_published: int

    @property
    def stages_s(self) -> tuple[float, ...]:
        """How long each of `STAGES` took, in seconds."""
        return tuple((b - a) / NS_PER_S for a, b in zip(self.moments_ns[:-1], self.moments_ns[1:], strict=True))

    @property
    def total_s(self) -> float:
        """How long all of them took."""
        return (self.moments_ns[-1] - self.moments_ns[0]) / NS_PER_S

    @property
    def longest_stage(self) -> str:
        """Return the stage that took most of it."""
        return STAGES[int(np.argmax(self.stages_s))]


@dataclass(frozen=True)
class StageTimes:
    """A stage, or all of them, over many trajectories, in seconds."""

    stage: str
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


@dataclass
class _Begun:
    """A trajectory that is on its way."""

    worker: str
    first_ns: int
    full_ns: int
    batched_ns: int | None = None


@dataclass
class _Places:
    """What was seen so far, going through the points of all processes in the order of time."""

    rollout: int
    steps_ns: dict[tuple[str, int], deque[int]] = field(default_factory=dict)
    group: dict[str, int] = field(default_factory=dict)
    begun: dict[int, _Begun] = field(default_factory=dict)
    published_ns: dict[int, list[int]] = field(default_factory=dict)


def find_lives(session: Session) -> list[Life]:
    """Return the trajectories that were begun and trained on within the events of a session, as they were taken."""
    ranks = {record.rank for record in session.processes}  # each has slots and groups of its own
    lives = [life for rank in ranks for life in _find_in_rank(session, rank)]
    return sorted(lives, key=lambda life: life.moments_ns[_TAKEN])


def _find_in_rank(session: Session, rank: int) -> Iterator[Life]:
    records = [record for record in session.processes if record.rank == rank]
    passes: dict[str, list[tuple[int, int, int]]] = {}
    for record in records:
        passes[record.name] = sorted(each for name in record.components for each in _passes(record, name))
    rollout = session.config.get("rollout")
    places = _Places(rollout if isinstance(rollout, int) and 0 < rollout < 1 << 20 else _DEFAULT_ROLLOUT)
    for time_ns, process, number in sorted(_points(records), key=itemgetter(0)):
        phase, kind, payload = read_flow_point(number)
        if kind == SLOT and phase == END:
            begun = places.begun.pop(payload, None)
            if begun is not None and (life := _end(places, begun, payload, time_ns, passes.get(process, []))):
                yield life
        else:
            _note(places, time_ns, process, phase, kind, payload)


def _note(places: _Places, time_ns: int, process: str, phase: int, kind: int, payload: int) -> None:
    if kind == REQUEST and phase == END:  # a step begins
        places.steps_ns.setdefault((process, payload), deque(maxlen=places.rollout)).append(time_ns)
    elif kind == REQUEST and phase == START:  # it has ended: what is finished next is of this group
        places.group[process] = payload
    elif kind == WEIGHTS and phase == START:
        places.published_ns.setdefault(payload >> _POLICY_SHIFT, []).append(time_ns)
    elif kind == SLOT and phase == START:
        steps_ns = places.steps_ns.get((process, places.group.get(process, -1)), deque())
        places.begun.pop(payload, None)
        if len(steps_ns) == places.rollout:
            places.begun[payload] = _Begun(process, steps_ns[0], time_ns)
    elif kind == SLOT and phase == STEP and payload in places.begun:
        places.begun[payload].batched_ns = time_ns


def _end(
    places: _Places, begun: _Begun, slot: int, taken_ns: int, passes: Sequence[tuple[int, int, int]]
) -> Life | None:
    """Return a trajectory that a Learner has taken at a moment; None: what became of it is not among the events."""
    index = bisect_left(passes, (taken_ns, 0, 0))
    if begun.batched_ns is None or index == len(passes):
        return None
    begin_ns, end_ns, policy = passes[index]
    published_ns = places.published_ns.get(policy, [])
    num_published = bisect_left(published_ns, begin_ns) - bisect_left(published_ns, begun.first_ns)
    moments_ns = (begun.first_ns, begun.full_ns, begun.batched_ns, taken_ns, begin_ns, end_ns)
    return Life(slot, begun.worker, moments_ns, num_published) if sorted(moments_ns) == list(moments_ns) else None


def slowest(lives: Sequence[Life]) -> list[Life]:
    """Return those that took longest, the worst one first."""
    return sorted(lives, key=lambda life: -life.total_s)[:_NUM_SLOWEST]


def stage_times(lives: Sequence[Life]) -> list[StageTimes]:
    """Return how long each stage takes, and last all of them together; nothing without trajectories."""
    if not lives:
        return []
    columns: Mapping[str, Sequence[float]] = {
        **dict(zip(STAGES, zip(*(life.stages_s for life in lives), strict=True), strict=True)),
        "all of it": [life.total_s for life in lives],
    }
    return [
        StageTimes(stage, *(float(value) for value in np.quantile(times_s, (0.5, 0.9, 0.99, 1.0))))
        for stage, times_s in columns.items()
    ]


def _points(records: Sequence[ProcessRecord]) -> Iterator[tuple[int, str, int]]:
    for record in records:
        events = _events(record)
        points = events[events["end"] == FLOW_POINT]
        for time_ns, number in zip(points["start"].tolist(), points["flow"].tolist(), strict=True):
            yield time_ns, record.name, number


def _passes(record: ProcessRecord, component: str) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and policy of each training of a component, which is a Learner; of others nothing."""
    parsed = ComponentId.parse(component.removeprefix(name_in_rank("", record.rank)))
    if parsed.kind != LEARNER:
        return
    nodes = [index for index, path in enumerate(record.paths) if path[0] == component and path[-1] == TRAIN]
    events = _events(record)
    chosen = events[np.isin(events["node"], nodes) & (events["end"] != FLOW_POINT)]
    for begin_ns, end_ns in zip(chosen["start"].tolist(), chosen["end"].tolist(), strict=True):
        yield begin_ns, end_ns, parsed.policy or 0


def _events(record: ProcessRecord) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    return np.frombuffer(bytes(Events.of(record.events).data), dtype=_EVENT)
