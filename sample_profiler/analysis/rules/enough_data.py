"""How much of a run there is to judge, and whether it was one process."""

from __future__ import annotations

from sample_profiler.analysis.findings import Advice, Finding, JudgedRun, percent

__all__ = [
    *("MIN_DATASETS", "MIN_SECONDS", "mention_standstill", "never_steady", "no_records", "not_enough_data", "serial"),
    "start_up",
]

MIN_SECONDS = 8.0
MIN_DATASETS = 4

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


def start_up(run: JudgedRun) -> Finding | None:
    """The start took longer than what came after it."""
    start_s, seconds = run.facts.start_s, run.facts.seconds
    if start_s < max(10.0, seconds):
        return None
    evidence = [f"{start_s:.0f} s went by before the run was steady, and {seconds:.0f} s after that"]
    return Finding("start-up", "", "Most of the run was its start", evidence, _longer_run(is_start=True))


def not_enough_data(run: JudgedRun) -> Finding | None:
    """The steady part is too short to tell one cause from another."""
    facts = run.facts
    if facts.seconds >= MIN_SECONDS and facts.num_datasets >= MIN_DATASETS:
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


def mention_standstill(run: JudgedRun, finding: Finding) -> Finding:
    """Add to what a rule has found that the run was suspended for a while: shares of time are not what they were."""
    if run.facts.stood_still_s:
        finding.evidence.append(
            f"for {run.facts.stood_still_s:.0f} s of that the run stood still, as when suspended; the blocks that were "
            "open have that time"
        )
    return finding
