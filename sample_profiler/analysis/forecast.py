"""What a run would do on more machines or cores: a model of its pipeline whose parts were recorded on one.

Every node makes datasets and is held up when its memory is full; a Learner trains on one after the other, in the order
in which they are complete; messages take their bytes over the bandwidth of a link, and its latency. With *ranks* each
node has a Learner, which waits for those of all others before each dataset and adds up gradients with them for each
minibatch, around a ring (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
workstations"). With *actors* one node has the Learner, and datasets come to it and weights go out over its link.

Times vary from one dataset to the next, so the events are played through, one by one, several times: with times that
are off by as much as throughput differs from run to run, which gives the intervals.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Literal

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.findings import JudgedRun
from sample_profiler.component_id import LEARNER
from sample_profiler.vocabulary import ALL_REDUCE

__all__ = ["Forecast", "Kind", "Network", "Pipeline", "describe_pipeline", "forecast", "forecast_cores"]

Kind = Literal["ranks", "actors"]

_NUM_DATASETS = 120  # of each node that are played through, without the first ones
_NUM_FIRST = 30
_NUM_TRIES = 15
_OFF_BY = 0.05  # standard deviation of a time that was measured once, by how much it may be off
_VARIES_BY = 0.1  # of the time of one dataset from that of the next
_ADDS_BYTES_PER_S = 2e9  # of gradients that a core reads, adds and writes
_CROWDED = 0.8  # of all cores: a node without a Learner samples more quickly then
_IN_INTERVAL = 0.05  # of all tries are left out at either end


@dataclass(frozen=True)
class Network:
    """What connects machines.

    Attributes:
        bytes_per_s: of a link, in each direction.
        latency_s: of a message, one way.
    """

    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class Pipeline:
    """The parts of a run on one machine.

    Attributes:
        dataset_frames: frames of what is trained on at once.
        make_s: in which a machine makes one, if nothing holds its workers up.
        train_s: in which the Learner trains on one.
        num_steps: optimizer steps for one.
        num_stored: datasets that a machine holds, the one that is trained on included.
        is_async: whether sampling goes on during training.
        dataset_bytes, weights_bytes: what they are as messages.
        learner_cores, busy_cores: processors that the Learner uses, and everybody; None: not known.
        num_cores: that there are; None: not known.
        is_crowded: whether nearly all of them are used.
        inference_s: in which the InferenceWorkers answer for one, all of them at the same time.
    """

    dataset_frames: float
    make_s: float
    train_s: float
    num_steps: int
    num_stored: int
    is_async: bool
    dataset_bytes: float
    weights_bytes: float
    learner_cores: float | None = None
    busy_cores: float | None = None
    num_cores: int | None = None
    is_crowded: bool = False
    inference_s: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of some size.

    Attributes:
        size: number of nodes, or of cores.
        fps: frames a second, the median of all tries.
        fps_interval: within which nine of ten tries lie.
        efficiency: frames a second over as many times those of one.
        policy_lag: optimizer steps between sampling and training, on average.
        network_load: share of the busiest link's bandwidth that is used.
        limit: what would give most if it took no time.
    """

    size: int
    fps: float
    fps_interval: tuple[float, float]
    efficiency: float
    policy_lag: float
    network_load: float
    limit: str


@dataclass(frozen=True)
class _Played:
    """What a try gives: seconds for a dataset of all nodes together, lag in optimizer steps, and the link's load."""

    seconds: float
    lag: float
    load: float


def describe_pipeline(facts: RunFacts, dataset_bytes: float, weights_bytes: float) -> Pipeline | None:
    """Return the parts of a run; None if it trained on nothing.

    Args:
        facts: of its steady part.
        dataset_bytes: of what is trained on at once.
        weights_bytes: of the network.
    """
    run, learners = JudgedRun(facts), facts.learners
    num_datasets = facts.num_datasets
    if run.learner is None or not num_datasets or not facts.fps:
        return None
    # Several policies train side by side: what they make and take together counts as one.
    period_s = facts.seconds * len(learners) / num_datasets
    # In one process nobody works while another does.
    waits = run.waits_for_learner ** (1 / (1 if facts.is_serial else run.num_groups))
    adding = sum(share for path, share in run.learner.blocks.items() if path.rpartition("/")[2] == ALL_REDUCE)
    is_async = bool(facts.flag("async_rl", True)) and not facts.is_serial
    known = all(load.cpu is not None for load in facts.components)
    busy = facts.machine_busy * facts.num_cores if facts.machine_busy is not None and facts.num_cores else None
    return Pipeline(
        dataset_frames=facts.fps * period_s,
        make_s=period_s * max(0.05, 1 - waits),
        train_s=period_s * max(0.001, fmean(load.busy for load in learners) - adding),
        num_steps=max(1, facts.flag("num_batches_per_epoch", 1) * facts.flag("num_epochs", 1)),
        num_stored=1 + facts.flag("num_batches_to_accumulate", 2) if is_async else 1,
        is_async=is_async,
        dataset_bytes=dataset_bytes * len(learners),
        weights_bytes=weights_bytes * len(learners),
        learner_cores=sum(load.cpu or 0.0 for load in facts.of_kind(LEARNER)) if known else None,
        busy_cores=busy,
        num_cores=facts.num_cores,
        is_crowded=facts.machine_busy is not None and facts.machine_busy >= _CROWDED,
        inference_s=period_s * max((run.own_work(load) for load in run.inference), default=0.0),
    )


def forecast(pipeline: Pipeline, kind: Kind, sizes: Sequence[int], network: Network) -> list[Forecast]:
    """Return what is to be expected of some numbers of nodes like the one that was recorded.

    Args:
        pipeline: the parts of the run.
        kind: whether each node has a Learner, or one has.
        sizes: numbers of nodes, from 1.
        network: between them.
    """
    play = _play_ranks if kind == "ranks" else _play_actors
    one_s = median(each.seconds for each in _tries(play, pipeline, 1, network))
    return [_expect(pipeline, play, size, network, one_s) for size in sizes]


_Play = Callable[[Pipeline, int, Network, int], _Played]


def _expect(pipeline: Pipeline, play: _Play, size: int, network: Network, one_s: float) -> Forecast:
    tries = _tries(play, pipeline, size, network)
    rates = sorted(pipeline.dataset_frames / each.seconds for each in tries)
    left_out = int(len(rates) * _IN_INTERVAL)
    fps = median(rates)
    return Forecast(
        size=size,
        fps=fps,
        fps_interval=(rates[left_out], rates[-1 - left_out]),
        efficiency=fps / (size * pipeline.dataset_frames / one_s),
        policy_lag=median(each.lag for each in tries),
        network_load=median(each.load for each in tries),
        limit=_find_limit(pipeline, play, size, network),
    )


def _tries(play: _Play, pipeline: Pipeline, size: int, network: Network) -> list[_Played]:
    results = []
    for seed in range(_NUM_TRIES):
        rng = random.Random(seed)
        make_s, train_s = (seconds * rng.lognormvariate(0, _OFF_BY) for seconds in (pipeline.make_s, pipeline.train_s))
        results.append(play(replace(pipeline, make_s=make_s, train_s=train_s), size, network, seed))
    return results


def _find_limit(pipeline: Pipeline, play: _Play, size: int, network: Network) -> str:
    """Return what would give most if it took no time."""
    free = Network(float("inf"), 0.0)
    without = {
        "sampling": (replace(pipeline, make_s=0.0), network),
        "training": (replace(pipeline, train_s=0.0), network),
        "network": (replace(pipeline, dataset_bytes=0.0), free),
    }
    seconds = {name: play(parts, size, link, 0).seconds for name, (parts, link) in without.items()}
    return min(seconds, key=lambda name: seconds[name])


def all_reduce_s(num_bytes: float, size: int, network: Network) -> float:
    """Return how long nodes in a ring need to add up so many bytes of each."""
    if size == 1:
        return 0.0
    each = 2 * (size - 1) / size * num_bytes
    return each / network.bytes_per_s + 2 * (size - 1) * network.latency_s + each / _ADDS_BYTES_PER_S


def _play_ranks(pipeline: Pipeline, size: int, network: Network, seed: int) -> _Played:
    rng = random.Random(seed)
    adding_s = pipeline.num_steps * all_reduce_s(pipeline.weights_bytes, size, network)
    made_s = [0.0] * size
    ends_s: list[float] = []
    lags: list[int] = []
    for number in range(_NUM_DATASETS):
        # Complete is a dataset only when there is memory for it: what was trained on long enough ago is free.
        free_s = ends_s[number - pipeline.num_stored] if number >= pipeline.num_stored else 0.0
        begun_s = made_s if pipeline.is_async or not ends_s else [ends_s[-1]] * size
        made_s = [max(free_s, begin + _vary(pipeline.make_s, rng)) for begin in begun_s]
        start_s = max(*made_s, ends_s[-1] if ends_s else 0.0)
        trained_s = max(_vary(pipeline.train_s, rng) for _ in range(size))
        ends_s.append(start_s + trained_s + adding_s)
        middle_s = (begun_s[0] + made_s[0]) / 2
        lags.append(_num_after(ends_s[:-1], middle_s))
    period_s = (ends_s[-1] - ends_s[_NUM_FIRST - 1]) / (_NUM_DATASETS - _NUM_FIRST)
    sent = 2 * (size - 1) / size * pipeline.weights_bytes * pipeline.num_steps
    return _Played(period_s / size, _lag(lags, pipeline), sent / period_s / network.bytes_per_s)


def _play_actors(pipeline: Pipeline, size: int, network: Network, seed: int) -> _Played:
    rng = random.Random(seed)
    make_s = [pipeline.make_s] + [_make_s_without_learner(pipeline)] * (size - 1)
    sending_s = pipeline.dataset_bytes / network.bytes_per_s
    num_stored = max(1, pipeline.num_stored - 1)  # the one that is trained on is a copy
    taken_s: list[list[float]] = [[] for _ in range(size)]
    begun_s = [0.0] * size
    made = [(_vary(seconds, rng), node) for node, seconds in enumerate(make_s)]
    heapq.heapify(made)
    link_s = trained_s = 0.0
    ends_s: list[float] = []
    lags: list[int] = []
    for _ in range(_NUM_DATASETS * size):
        ready_s, node = heapq.heappop(made)
        arrives_s = ready_s
        if node:  # the others' come over the Learner's link, one after the other
            link_s = max(link_s, ready_s) + sending_s
            arrives_s = link_s + network.latency_s
        start_s = max(trained_s, arrives_s)
        trained_s = start_s + _vary(pipeline.train_s, rng)
        ends_s.append(trained_s)
        lags.append(_num_after(ends_s[:-1], (begun_s[node] + ready_s) / 2 + 2 * network.latency_s * bool(node)))
        taken_s[node].append(start_s)
        free_s = taken_s[node][-num_stored] if len(taken_s[node]) >= num_stored else 0.0
        begun_s[node] = ready_s if pipeline.is_async else trained_s
        heapq.heappush(made, (max(free_s, begun_s[node] + _vary(make_s[node], rng)), node))
    first = _NUM_FIRST * size
    seconds = (ends_s[-1] - ends_s[first - 1]) / (len(ends_s) - first)
    received = pipeline.dataset_bytes * (size - 1) / size
    sent = pipeline.weights_bytes * (size - 1)
    return _Played(seconds, _lag(lags, pipeline), max(received, sent) / seconds / network.bytes_per_s)


def _make_s_without_learner(pipeline: Pipeline) -> float:
    if not pipeline.is_crowded or pipeline.learner_cores is None or not pipeline.busy_cores:
        return pipeline.make_s
    return pipeline.make_s * max(0.1, 1 - pipeline.learner_cores / pipeline.busy_cores)


def _vary(seconds: float, rng: random.Random) -> float:
    return max(0.0, rng.gauss(seconds, _VARIES_BY * seconds))


def _num_after(ends_s: Sequence[float], moment_s: float) -> int:
    """Return how many of these times, in ascending order, are behind a moment: most are not."""
    number = 0
    while number < len(ends_s) and ends_s[-1 - number] > moment_s:
        number += 1
    return number


def _lag(lags: Sequence[int], pipeline: Pipeline) -> float:
    """Return the mean lag in optimizer steps: those of the datasets in between, and half of a dataset's own."""
    return fmean(lags[len(lags) // 4 :]) * pipeline.num_steps + (pipeline.num_steps - 1) / 2


def forecast_cores(pipeline: Pipeline, sizes: Sequence[int]) -> list[Forecast]:
    """Return what is to be expected of one machine with other numbers of cores, and as many more workers.

    Args:
        pipeline: the parts of the run, with the cores that it has used.
        sizes: numbers of cores.

    Raises:
        ValueError: it is not known how many cores the run had, or has used.
    """
    if pipeline.num_cores is None or pipeline.busy_cores is None:
        raise ValueError("it was not recorded how many cores the run had, and how many it used")
    now = _needs(pipeline, pipeline.num_cores)
    found = []
    for size in sizes:
        needs = _needs(pipeline, size)
        limit = max(needs, key=lambda name: needs[name])
        fps = pipeline.dataset_frames / needs[limit]
        as_many = fps / (size / pipeline.num_cores * pipeline.dataset_frames / max(now.values()))
        found.append(Forecast(size, fps, (fps * (1 - 2 * _OFF_BY), fps * (1 + 2 * _OFF_BY)), as_many, 0.0, 0.0, limit))
    return found


def _needs(pipeline: Pipeline, cores: int) -> dict[str, float]:
    """Return the seconds that a dataset takes at least, by what takes them."""
    assert pipeline.num_cores is not None and pipeline.busy_cores is not None
    make_s, period_s = pipeline.make_s * pipeline.num_cores / cores, max(pipeline.make_s, pipeline.train_s)
    if not pipeline.is_async:  # one begins when the other has ended
        make_s, period_s = make_s + pipeline.train_s, pipeline.make_s + pipeline.train_s
    return {
        "sampling": make_s,
        "training": pipeline.train_s,
        "inference": pipeline.inference_s,
        "processors": pipeline.busy_cores * period_s / cores,
    }
