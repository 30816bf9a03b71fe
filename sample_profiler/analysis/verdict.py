"""What limits a run, how that is known, what to change, and how much it would give.

A run is a ring: workers step environments, inference answers them, the Learner trains on what they made and gives
memory back. In such a ring the one that never waits sets the pace, and all others wait for it, directly or not (Denning
and Buzen 1978, "The operational analysis of queueing network models"). So waits, not busy times, are what is looked at
first; then processors, which all of them share; then what makes a component slower than it has to be.

Rules are tried in an order in which the special comes before the general; the first that holds is the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from sample_profiler.analysis.facts import ComponentLoad, RunFacts, mean_share

__all__ = ["Advice", "Cause", "Verdict", "judge"]

Cause = Literal[
    "not enough data",
    "start-up",
    "serial",
    "slow environment",
    "slow worker",
    "too many threads",
    "taking turns",
    "buffers",
    "learner",
    "small inference batches",
    "inference",
    "environments",
    "too few environments",
    "processor",
    "balanced",
]
"""What limits a run; "balanced" where nothing does more than the rest."""

MIN_SECONDS = 8.0
MIN_DATASETS = 4

_SATURATED = 0.92  # of all cores: what is left is switching and waking up
_CROWDED = 0.8  # of all cores: components often wait for a processor while they hold what others wait for
_LITTLE, _MUCH, _NEARLY_ALL = 0.15, 0.3, 0.8
_SLOW_ENV_RATIO, _SLOW_ENV_SHARE = 4.0, 0.2
_SLOW_WORKER_RATIO = 1.7
_SPARE_THREADS = 1.5
_FEW_ROWS = 6
_OWN_WORK = 0.6
_CAUTION = 0.95  # what a change that gives nothing costs, and the noise
_OPTIMISM = 1.15  # the model leaves out that fewer switches between processes make each of them faster
_MUCH_SENDING = 0.15
_LARGE_NETWORK_S = 0.02  # for the encoder's part of a minibatch: below that bfloat16 costs more than it saves


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
class Verdict:
    """What limits a run.

    Attributes:
        cause: in one term.
        component: whom it concerns; empty: nobody in particular.
        headline: in one sentence.
        evidence: what shows it, one sentence each.
        advice: what to do, the best first; empty where there is nothing to do.
        fps: frames per second that it is about; None: not known.
        seconds: length of the window that it is about.
    """

    cause: Cause
    component: str
    headline: str
    evidence: tuple[str, ...]
    advice: tuple[Advice, ...]
    fps: float | None
    seconds: float


@dataclass(frozen=True)
class _Finding:
    cause: Cause
    component: str
    headline: str
    evidence: list[str]
    advice: list[Advice]


def judge(facts: RunFacts) -> Verdict:
    """Return the verdict on a run, or on a window of it: a good one is steady, and some ten seconds long."""
    finding = next(finding for rule in _RULES if (finding := rule(_Run(facts))) is not None)
    return Verdict(
        finding.cause,
        finding.component,
        finding.headline,
        tuple(finding.evidence),
        tuple(finding.advice),
        facts.fps,
        facts.seconds,
    )


class _Run:
    """The facts, and what several rules need of them."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.workers = facts.workers
        self.inference = facts.of_kind("InferenceWorker")
        self.learner = max(facts.learners, key=lambda load: load.busy, default=None)
        self.learner_waits = self.learner.waits.get("batcher", 0.0) if self.learner else 0.0
        self.worker_busy = fmean(load.busy for load in self.workers) if self.workers else 0.0
        self.waits_for_learner = mean_share(self.workers, "learner")
        self.waits_for_inference = mean_share(self.workers, "inference")
        self.inference_busy = max((load.busy for load in self.inference), default=0.0)
        # Environments in processes of their own count for the machine alone.
        self.is_saturated = facts.machine_busy is not None and facts.machine_busy >= _SATURATED
        self.num_envs = int(facts.flag("num_envs_per_worker", 1))
        self.num_idle = 0.0
        if facts.machine_busy is not None and facts.num_cores:
            self.num_idle = facts.num_cores * (1 - facts.machine_busy)

    @property
    def may_gain_by_bf16(self) -> bool:
        """Whether the network is large enough for bfloat16 to pay, and does not use it yet."""
        seconds = self.learner.seconds_per_pass("train/calculate_losses/forward_head") if self.learner else 0.0
        return self.facts.flag("precision", "fp32") == "fp32" and seconds >= _LARGE_NETWORK_S

    def gain(self, factor: float, certainty: float = 0.4) -> tuple[float, float] | None:
        """Return the throughput expected if what limits the run became so many times faster.

        Args:
            factor: of the throughput, at best.
            certainty: how much of the gain is there at worst.
        """
        if self.facts.fps is None:
            return None
        return self.facts.fps * (_CAUTION + (factor - 1) * certainty), self.facts.fps * max(1.0, factor) * _OPTIMISM

    def room(self, wanted: float) -> float:
        """Return by which factor the throughput can grow before the processors are used up, `wanted` at most."""
        busy = self.facts.machine_busy
        return min(wanted, 1 / max(busy, 0.01)) if busy is not None else wanted

    def learner_room(self, wanted: float) -> float:
        """Return by which factor the throughput can grow before the Learner is busy all the time."""
        return min(wanted, 1 / max(1 - self.learner_waits, 0.01))


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


_ENOUGH_DATA = Advice(
    "a longer run", f"at least {MIN_SECONDS:.0f} s and {MIN_DATASETS} datasets after the first training"
)


def _no_records(run: _Run) -> _Finding | None:
    if run.facts.workers and run.facts.learners:
        return None
    return _Finding("not enough data", "", "There are no records of a training run's components", [], [])


def _never_steady(run: _Run) -> _Finding | None:
    facts = run.facts
    if facts.is_steady:
        return None
    headline = f"The run was over before it was steady: its start took {facts.start_s:.0f} s of {facts.seconds:.0f} s"
    evidence = [f"datasets that it trained on: {facts.num_datasets}; it is steady after the first few"]
    is_start = facts.start_s >= facts.seconds / 2
    return _Finding("start-up" if is_start else "not enough data", "", headline, evidence, _longer_run(is_start))


def _not_enough_data(run: _Run) -> _Finding | None:
    facts = run.facts
    if facts.seconds >= MIN_SECONDS and facts.num_datasets >= MIN_DATASETS:
        return None
    headline = (
        f"There is too little to judge: {facts.seconds:.0f} s and {facts.num_datasets} datasets in its steady part"
    )
    return _Finding("not enough data", "", headline, [], [_ENOUGH_DATA])


def _start_up(run: _Run) -> _Finding | None:
    start_s, seconds = run.facts.start_s, run.facts.seconds
    if start_s < max(10.0, seconds):
        return None
    evidence = [f"{start_s:.0f} s went by before the run was steady, and {seconds:.0f} s after that"]
    return _Finding("start-up", "", "Most of the run was its start", evidence, _longer_run(is_start=True))


def _longer_run(is_start: bool) -> list[Advice]:
    if not is_start:
        return [_ENOUGH_DATA]
    return [
        Advice("a longer run", "starting costs the same whatever its length"),
        Advice("fewer --num_workers or --num_envs_per_worker", "if starting environments takes most of it"),
    ]


def _serial(run: _Run) -> _Finding | None:
    if not run.facts.is_serial:
        return None
    parts = {load.name: load.busy for load in run.facts.components}
    largest = max(parts, key=lambda name: parts[name])
    evidence = [
        f"{name} works {_share(busy)} of the time" for name, busy in sorted(parts.items(), key=lambda p: -p[1])[:3]
    ]
    advice = [Advice("--serial_mode=False", "components then work side by side")]
    return _Finding(
        "serial", largest, f"One process does everything, one after another; most of it is {largest}", evidence, advice
    )


def _slow_environment(run: _Run) -> _Finding | None:
    for worker in run.workers:
        ratio = worker.gauges.get("slowest_env_ratio", 0.0)
        share = worker.gauges.get("slowest_env_share", 0.0)
        stepping = worker.blocks.get("env_step", 0.0)
        if ratio < _SLOW_ENV_RATIO or share < _SLOW_ENV_SHARE or stepping * share < 0.1:
            continue
        env = int(worker.gauges.get("slowest_env", -1))
        num_others = max(1, run.num_envs - 1)
        without = stepping * (1 - share) + stepping * share / max(ratio, 1.0)
        factor = run.room(run.learner_room(1 / max(1 - (stepping - without), 0.05)))
        evidence = [
            f"its steps take {ratio:.1f} times as long as those of the {num_others} others of {worker.name}",
            f"they are {_share(share)} of that worker's env_step, which is {_share(stepping)} of its time",
        ]
        advice = [
            Advice(
                f"look at what environment {env} does otherwise",
                "all others of its group wait for it",
                run.gain(factor),
            )
        ]
        return _Finding(
            "slow environment", worker.name, f"Environment {env} is slow, and its group waits for it", evidence, advice
        )
    return None


def _slow_worker(run: _Run) -> _Finding | None:
    if len(run.workers) < 2:
        return None
    steps_s = {load.name: load.seconds_per_pass("env_step") for load in run.workers}
    slowest = max(steps_s, key=lambda name: steps_s[name])
    others = median(value for name, value in steps_s.items() if name != slowest)
    load = next(each for each in run.workers if each.name == slowest)
    if others <= 0 or steps_s[slowest] < _SLOW_WORKER_RATIO * others or load.blocks.get("env_step", 0.0) < _MUCH:
        return None
    ratio = steps_s[slowest] / others
    factor = run.room(run.learner_room((len(run.workers) - 1 + 1.0) / (len(run.workers) - 1 + 1 / ratio)))
    evidence = [
        f"a step of its environments takes {1000 * steps_s[slowest]:.2f} ms, of the others {1000 * others:.2f} ms",
        f"env_step is {_share(load.blocks.get('env_step', 0.0))} of its time",
    ]
    advice = [
        Advice(
            f"look at the core and the environments of {slowest}",
            "it makes fewer samples than the others",
            run.gain(factor),
        )
    ]
    return _Finding(
        "slow worker", slowest, f"{slowest} steps {ratio:.1f} times as slowly as the others", evidence, advice
    )


def _too_many_threads(run: _Run) -> _Finding | None:
    cores = run.facts.num_cores
    if not cores:
        return None
    wants = {load.name: (load.cpu or 0.0) + (load.starved or 0.0) for load in run.facts.components}
    name = max(wants, key=lambda each: wants[each])
    load = next(each for each in run.facts.components if each.name == name)
    if wants[name] < cores + _SPARE_THREADS or (load.starved or 0.0) < _SPARE_THREADS:
        return None
    headline = f"{name} has more busy threads than there are cores"
    evidence = [
        f"on average {wants[name]:.1f} of its threads were ready to run, on {cores} cores",
        f"{load.starved or 0.0:.1f} of them had none, though they hold what others wait for",
    ]
    advice = [
        Advice(
            f"OMP_NUM_THREADS={cores} or unset", "threads beyond the cores only wait for each other", run.gain(1.5, 0.1)
        ),
        Advice("--force_envs_single_thread=True", "if environments start the threads"),
    ]
    return _Finding("too many threads", name, headline, evidence, advice)


def _taking_turns(run: _Run) -> _Finding | None:
    if run.facts.flag("async_rl", True) or run.learner is None:
        return None
    if run.learner_waits < _LITTLE or run.waits_for_learner < _LITTLE:
        return None
    factor = run.room(min(1 / max(1 - run.learner_waits, 0.05), 1 / max(1 - run.waits_for_learner, 0.05)))
    evidence = [
        f"{run.learner.name} waits {_share(run.learner_waits)} of the time for workers to finish their rollouts",
        f"workers wait {_share(run.waits_for_learner)} of the time for the Learner",
    ]
    advice = [
        Advice(
            "--async_rl=True", "both then work at the same time; samples are some optimizer steps old", run.gain(factor)
        )
    ]
    return _Finding("taking turns", run.learner.name, "Sampling and training take turns", evidence, advice)


def _buffers(run: _Run) -> _Finding | None:
    if run.learner is None or run.learner_waits < 0.2 or run.waits_for_learner < 0.2:
        return None
    factor = run.room(run.learner_room(1 / max(1 - min(run.learner_waits, run.waits_for_learner), 0.05)))
    batch_size = int(run.facts.flag("batch_size", 0))
    accumulated = int(run.facts.flag("num_batches_to_accumulate", 2))
    evidence = [
        f"{run.learner.name} waits {_share(run.learner_waits)} of the time for a dataset",
        f"and workers wait {_share(run.waits_for_learner)} of it for memory that the Learner holds",
    ]
    advice = [
        Advice(f"--batch_size={max(1, batch_size // 2)}", "half as much has to be complete at once", run.gain(factor)),
        Advice(
            f"--num_batches_to_accumulate={accumulated + 2}",
            "workers then have more memory to fill meanwhile",
            run.gain(factor, 0.1),
        ),
    ]
    return _Finding(
        "buffers", run.learner.name, "The batch is too large for the memory that workers fill", evidence, advice
    )


def _learner(run: _Run) -> _Finding | None:
    learner = run.learner
    if learner is None or learner.busy < _NEARLY_ALL or run.waits_for_learner < _LITTLE:
        return None
    wanted = 1 / max(1 - run.waits_for_learner, 0.2)
    evidence = [
        f"{learner.name} trains {_share(learner.busy)} of the time and waits {_share(run.learner_waits)} for data",
        f"workers wait {_share(run.waits_for_learner)} of their time for it",
        f"most of it: {_describe_blocks(learner)}",
    ]
    advice = []
    epochs = int(run.facts.flag("num_epochs", 1))
    if epochs > 1:
        training = learner.blocks.get("train", learner.busy)
        factor = 1 / max(1 - training * (1 - (epochs - 1) / epochs), 0.1)
        change = f"--num_epochs={epochs - 1}"
        advice.append(
            Advice(
                change,
                f"each sample is trained on {epochs} times; watch the learning curve",
                run.gain(min(factor, wanted)),
            )
        )
    if run.may_gain_by_bf16:
        advice.append(Advice("--precision=bf16", "where the processor or GPU has it", run.gain(min(1.35, wanted), 0.1)))
    advice.append(
        Advice("a smaller network or a GPU", "more workers give nothing: they wait already", run.gain(wanted, 0.1))
    )
    return _Finding(
        "learner", learner.name, "Training is the limit: the Learner cannot keep up with the workers", evidence, advice
    )


def _small_inference_batches(run: _Run) -> _Finding | None:
    if not run.inference or run.inference_busy < _MUCH:
        return None
    load = max(run.inference, key=lambda each: each.busy)
    rows = load.gauges.get("batch_rows", 0.0)
    in_flight = run.num_envs * len(run.workers)
    if not 0 < rows < _FEW_ROWS or run.waits_for_inference < _LITTLE:
        return None
    more = max(2, run.num_envs * 2)
    evidence = [
        f"{load.name} takes {rows:.1f} observations through the network at once",
        f"it works {_share(load.busy)} of the time, workers wait {_share(run.waits_for_inference)} of theirs for it",
        f"{in_flight} environments are in flight",
    ]
    advice = [
        Advice(f"--num_envs_per_worker={more}", "each call costs about the same for twice the rows", run.gain(2.0, 0.1))
    ]
    advice.append(Advice(_inference_in_workers(run), "without messages between processes", run.gain(1.3, 0.0)))
    return _Finding(
        "small inference batches", load.name, "Inference works on too few observations at once", evidence, advice
    )


def _inference(run: _Run) -> _Finding | None:
    if not run.inference or run.inference_busy < 0.7 or run.waits_for_inference < _MUCH:
        return None
    load = max(run.inference, key=lambda each: each.busy)
    is_crowded = run.facts.machine_busy is not None and run.facts.machine_busy >= _CROWDED
    if is_crowded and load.busy - (load.starved or 0.0) < _OWN_WORK:
        return None  # it is busy waiting for a processor, as everybody is
    wanted = run.learner_room(1 / max(1 - run.waits_for_inference, 0.2))
    evidence = [
        f"{load.name} works {_share(load.busy)} of the time, {load.gauges.get('batch_rows', 0.0):.0f} rows at once",
        f"workers wait {_share(run.waits_for_inference)} of their time for actions",
        f"most of it: {_describe_blocks(load)}",
    ]
    advice = []
    if run.num_idle >= 0.8:
        more = int(run.facts.flag("policy_workers_per_policy", 1)) + 1
        advice.append(
            Advice(
                f"--policy_workers_per_policy={more}",
                "cores are idle",
                run.gain(run.room(min(wanted, more / (more - 1))), 0.0),
            )
        )
    advice += _own_inference(run)
    if run.may_gain_by_bf16:
        advice.append(Advice("--precision=bf16", "where the processor or GPU has it", run.gain(min(1.3, wanted), 0.1)))
    advice.append(Advice("a smaller network", "for actions", run.gain(wanted, 0.1)))
    return _Finding("inference", load.name, "Inference is the limit: workers wait for actions", evidence, advice)


def _own_inference(run: _Run) -> list[Advice]:
    """Advise inference in the workers where the InferenceWorkers mostly wake them."""
    if not run.inference:
        return []
    load = max(run.inference, key=lambda each: each.busy)
    sending = load.blocks.get("handle_policy_step/send_messages", 0.0)
    if sending < _MUCH_SENDING:
        return []
    factor = min(1 / (1 - sending), 1 / max(1 - run.waits_for_inference, 0.2))
    why = f"{_share(sending)} of the time of {load.name} goes into waking workers"
    return [Advice(_inference_in_workers(run), why, run.gain(run.learner_room(factor), 0.1))]


def _inference_in_workers(run: _Run) -> str:
    """Return the flags for it; several inference workers and none exclude each other."""
    is_single = int(run.facts.flag("policy_workers_per_policy", 1)) == 1
    return "--inference=worker" + ("" if is_single else " --policy_workers_per_policy=1")


def _environments(run: _Run) -> _Finding | None:
    if run.worker_busy < 0.7 or run.learner_waits < _LITTLE:
        return None
    stepping = fmean(load.blocks.get("env_step", 0.0) for load in run.workers)
    if stepping < 0.4:
        return None
    wanted = run.learner_room(4.0)
    evidence = [
        f"workers step environments {_share(stepping)} of the time",
        f"{run.learner.name if run.learner else 'the Learner'} waits {_share(run.learner_waits)} of the time for data",
    ]
    advice = []
    cores = run.facts.num_cores or 0
    num_workers = len(run.workers)
    if run.num_idle >= 0.5:
        more = max(num_workers + 1, cores)
        factor = run.room(min(wanted, more / num_workers))
        advice.append(Advice(f"--num_workers={more}", f"{run.num_idle:.1f} cores are idle", run.gain(factor)))
    resets = fmean(load.blocks.get("env_step/env_reset", 0.0) for load in run.workers)
    why = "nothing else is busy enough to matter"
    if resets > 0.3 * stepping:
        why = f"{_share(resets / stepping)} of it is resetting"
    advice.append(Advice("a faster environment", why, run.gain(min(wanted, 1 / max(1 - 0.5 * stepping, 0.05)), 0.1)))
    return _Finding("environments", "RolloutWorker", "Stepping environments is the limit", evidence, advice)


def _too_few_environments(run: _Run) -> _Finding | None:
    if run.is_saturated or run.facts.machine_busy is None or run.learner is None:
        return None
    if run.learner_waits < _MUCH or run.waits_for_inference < _MUCH or run.inference_busy > 0.7:
        return None
    more = max(2, run.num_envs * 2)
    evidence = [
        f"nobody is busy: workers {_share(run.worker_busy)}, inference {_share(run.inference_busy)}, "
        f"{run.learner.name} {_share(run.learner.busy)}, all cores together {_share(run.facts.machine_busy)}",
        f"workers wait {_share(run.waits_for_inference)} of their time for actions, inference for requests",
    ]
    advice = [
        Advice(
            f"--num_envs_per_worker={more}",
            "while some wait others step",
            run.gain(run.room(run.learner_room(1.8)), 0.1),
        )
    ]
    if int(run.facts.flag("worker_num_splits", 2)) < 2 and run.num_envs > 1:
        advice.insert(
            0, Advice("--worker_num_splits=2", "one half steps while the other waits", run.gain(run.room(1.5), 0.1))
        )
    return _Finding(
        "too few environments",
        "RolloutWorker",
        "Too few environments are under way to keep anybody busy",
        evidence,
        advice,
    )


def _processor(run: _Run) -> _Finding | None:
    if not run.is_saturated or not run.facts.num_cores:
        return None
    used = {
        kind: sum(load.cpu or 0.0 for load in run.facts.of_kind(kind)) / run.facts.num_cores
        for kind in ("Learner", "InferenceWorker", "RolloutWorker")
    }
    # What runs outside of the components' own processes is environments, if anything of the run.
    used["RolloutWorker"] += max(0.0, (run.facts.machine_busy or 0.0) - sum(used.values()))
    largest = max(used, key=lambda kind: used[kind])
    names = {"Learner": "training", "InferenceWorker": "inference", "RolloutWorker": "stepping environments"}
    evidence = [f"all {run.facts.num_cores} cores are {_share(run.facts.machine_busy or 0.0)} busy"]
    evidence += [
        f"{names[kind]} uses {_share(share)} of them" for kind, share in sorted(used.items(), key=lambda u: -u[1])
    ]
    advice = [Advice("more cores, or a GPU for the network", "no component waits for another one for long")]
    if run.may_gain_by_bf16 and used["Learner"] + used["InferenceWorker"] > 0.5:
        advice.insert(0, Advice("--precision=bf16", "where the processor has it", run.gain(1.35, 0.1)))
    advice = _own_inference(run) + advice
    return _Finding(
        "processor",
        largest,
        f"The processors are used up, most of them by {names[largest]}; the components are in balance",
        evidence,
        advice,
    )


def _balanced(run: _Run) -> _Finding:
    evidence = [
        f"workers are busy {_share(run.worker_busy)} of the time, inference {_share(run.inference_busy)}, "
        f"the Learner {_share(run.learner.busy if run.learner else 0.0)}"
    ]
    if run.facts.machine_busy is not None:
        evidence.append(f"all cores together are {_share(run.facts.machine_busy)} busy")
    headline = "Nothing limits the run more than the rest"
    return _Finding("balanced", "", headline, evidence, _own_inference(run))


def _describe_blocks(load: ComponentLoad) -> str:
    """Name the blocks that take most of a component's time by themselves, without the blocks inside them."""
    own = dict(load.blocks)
    for path, share in load.blocks.items():
        outer = path.rpartition("/")[0]
        if outer:
            own[outer] -= share
    largest = sorted(own.items(), key=lambda block: -block[1])[:3]
    return ", ".join(f"{path.rpartition('/')[2]} {_share(share)}" for path, share in largest if share >= 0.01)


_RULES: tuple[Callable[[_Run], _Finding | None], ...] = (
    _no_records,
    _never_steady,
    _start_up,
    _not_enough_data,
    _serial,
    _slow_environment,
    _slow_worker,
    _too_many_threads,
    _taking_turns,
    _buffers,
    _learner,
    _small_inference_batches,
    _inference,
    _environments,
    _too_few_environments,
    _processor,
    _balanced,
)
