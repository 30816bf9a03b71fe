"""How much of a run there is to judge, and whether it was one process."""

from __future__ import annotations

from sample_profiler.analysis.findings import Advice, Finding, JudgedRun, percent
from sample_profiler.component_id import ROLLOUT_WORKER
from sample_profiler.vocabulary import AGENTS_PER_ENV

__all__ = [
    *("MIN_DATASETS", "MIN_SECONDS", "mention_standstill", "mention_start", "never_steady", "no_records"),
    *("not_enough_data", "serial", "slow_resets", "slow_start", "start_was_most"),
]

MIN_SECONDS = 8.0
MIN_DATASETS = 4

_DATASETS_OF_START = 3  # what the steady part begins after
_LONG_START_S = 10.0
_MANY_TIMES = 3.0
_MOSTLY = 0.5  # of what there was of the run
_MUCH_OF_IT = 0.2
_LEAST_RESETS_S = 5.0

_OF_THE_START = frozenset({"start-up", "not enough data"})

_ENOUGH_DATA = Advice(
    "a longer run", f"at least {MIN_SECONDS:.0f} s and {MIN_DATASETS} datasets after the first training"
)


def no_records(run: JudgedRun) -> Finding | None:
    """Recordings without workers or a Learner: of something else than a training run."""
    if run.facts.workers and run.facts.learners:
        return None
    evidence = ["the run ended before they had begun, or these recordings are not of a training run"]
    return Finding("not enough data", "", "No worker or no Learner has recorded anything", evidence, [])


def never_steady(run: JudgedRun) -> Finding | None:
    """The run was over before its steady part began."""
    facts = run.facts
    if facts.is_steady:
        return None
    headline = f"The run was over before it was steady: its start took {facts.start_s:.0f} s of {facts.seconds:.0f} s"
    evidence = [f"datasets that it trained on: {facts.num_datasets}; it is steady after the first few"]
    is_start = facts.start_s >= facts.seconds / 2
    return Finding("start-up" if is_start else "not enough data", "", headline, evidence, _longer_run(is_start))


def slow_resets(run: JudgedRun) -> Finding | None:
    """Environments are reset so slowly that the run was over before it was steady, or was hardly anything but that."""
    facts = run.facts
    if facts.is_steady and not _was_mostly_start(run):
        return None
    resets_s, wall_s = facts.start.resets_s, facts.start_s if facts.is_steady else facts.seconds
    if resets_s < max(_LEAST_RESETS_S, _MOSTLY * wall_s):
        return None
    evidence = [
        f"resetting environments took {percent(min(1.0, resets_s / wall_s))} of {wall_s:.0f} s",
        f"datasets that it trained on: {facts.num_datasets}",
    ]
    advice = [
        Advice("faster resets", "what stays the same is loaded and made once; sample-profiler doctor has their times"),
        Advice("fewer --num_envs_per_worker, more --num_workers", "a worker resets one after another"),
        Advice("a longer run", f"it is steady after {_DATASETS_OF_START} datasets"),
    ]
    what = "was mostly its start" if facts.is_steady else "was over before it was steady"
    headline = f"The run {what}: resetting its environments took {resets_s:.0f} s of it"
    return Finding("environments", ROLLOUT_WORKER, headline, evidence, advice)


def slow_start(run: JudgedRun) -> Finding | None:
    """Environments step so slowly that the run was over before it was steady, or was hardly anything but its start."""
    facts = run.facts
    if facts.is_steady and not _was_mostly_start(run):
        return None
    start, wall_s = facts.start, facts.start_s if facts.is_steady else facts.seconds
    num_steps = start.num_first + start.num_later * run.group_envs
    if start.seconds < _MOSTLY * wall_s or not num_steps:
        return None
    step_s = start.seconds / num_steps
    batch = int(facts.flag("batch_size", 1)) * int(facts.flag("num_batches_per_epoch", 1))
    agents = max(1.0, max(load.gauges.get(AGENTS_PER_ENV, 1.0) for load in run.workers))  # each has a step in each
    dataset_s = batch / agents * step_s / len(run.workers)
    if start.first_s + _DATASETS_OF_START * dataset_s < _LONG_START_S:
        return None
    evidence = [
        f"stepping environments took {percent(min(1.0, start.seconds / wall_s))} of {wall_s:.0f} s",
        f"datasets that it trained on: {facts.num_datasets}; one is {batch} steps, which take about {dataset_s:.0f} s",
    ]
    advice = []
    if start.first_s >= _MUCH_OF_IT * wall_s:
        evidence.append(f"{start.first_s:.0f} s of it were random steps before the first rollout")
        change = "--decorrelate_envs_on_one_worker=False"
        advice.append(Advice(change, "environments begin without random steps; their episodes may end all at once"))
    advice.append(Advice("a faster environment", f"each of its steps takes {1000 * step_s:.0f} ms"))
    if run.num_idle >= _MOSTLY:
        more = len(run.workers) + max(1, int(run.num_idle))
        advice.append(Advice(f"--num_workers={more}", f"{run.num_idle:.1f} cores are idle"))
    advice.append(Advice("a longer run", f"it is steady after {_DATASETS_OF_START} datasets"))
    what = "was mostly its start" if facts.is_steady else "was over before it was steady"
    headline = f"The run {what}: a step of an environment takes {1000 * step_s:.0f} ms"
    return Finding("environments", ROLLOUT_WORKER, headline, evidence, advice)


def _was_mostly_start(run: JudgedRun) -> bool:
    """Whether the start was longer than the rest; where that is enough to judge, so many times as long."""
    times = _MANY_TIMES if _has_enough_data(run) else 1.0
    return run.facts.start_s >= max(_LONG_START_S, times * run.facts.seconds)


def _has_enough_data(run: JudgedRun) -> bool:
    return run.facts.seconds >= MIN_SECONDS and run.facts.num_datasets >= MIN_DATASETS


def start_was_most(run: JudgedRun) -> Finding | None:
    """The start took longer than what came after it, which was short, or many times as long."""
    start_s, seconds = run.facts.start_s, run.facts.seconds
    if not _was_mostly_start(run):
        return None
    evidence = [f"{start_s:.0f} s went by before the run was steady, and {seconds:.0f} s after that"]
    return Finding("start-up", "", "Most of the run was its start", evidence, _longer_run(is_start=True))


def not_enough_data(run: JudgedRun) -> Finding | None:
    """The steady part is too short to tell one cause from another."""
    facts = run.facts
    if _has_enough_data(run):
        return None
    headline = (
        f"There is too little to judge: {facts.seconds:.0f} s and {facts.num_datasets} datasets in its steady part"
    )
    return Finding("not enough data", "", headline, [], [_ENOUGH_DATA])


def _longer_run(is_start: bool) -> list[Advice]:
    if not is_start:
        return [_ENOUGH_DATA]
    return [
        Advice("a longer run", "starting costs the same whatever its length"),
        Advice("fewer --num_workers or --num_envs_per_worker", "if starting environments takes most of it"),
    ]


def serial(run: JudgedRun) -> Finding | None:
    """All components take turns in one process."""
    if not run.facts.is_serial:
        return None
    parts = {load.name: load.busy for load in run.facts.components}
    largest = max(parts, key=lambda name: parts[name])
    evidence = [
        f"{name} works {percent(busy)} of the time" for name, busy in sorted(parts.items(), key=lambda p: -p[1])[:3]
    ]
    advice = [Advice("--serial_mode=False", "components then work side by side")]
    return Finding(
        "serial", largest, f"One process does everything, one after another; most of it is {largest}", evidence, advice
    )


def mention_start(run: JudgedRun, finding: Finding) -> Finding:
    """Add to what a rule has found that most of the run is not in it: its start."""
    start_s, seconds = run.facts.start_s, run.facts.seconds
    if finding.cause not in _OF_THE_START and run.facts.is_steady and start_s >= max(_LONG_START_S, seconds):
        finding.evidence.append(f"before these {seconds:.0f} s the run took {start_s:.0f} s to start")
    return finding


def mention_standstill(run: JudgedRun, finding: Finding) -> Finding:
    """Add to what a rule has found that the run was suspended for a while: shares of time are not what they were."""
    if run.facts.stood_still_s:
        finding.evidence.append(
            f"for {run.facts.stood_still_s:.0f} s of that the run stood still, as when suspended; the blocks that were "
            "open have that time"
        )
    return finding
