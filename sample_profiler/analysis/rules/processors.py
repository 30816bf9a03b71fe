"""What all components share: processors, their threads, and the case in which nothing stands out."""

from __future__ import annotations

from sample_profiler.analysis.core_shares import INFERENCE, OUTSIDE, TRAINING, WHOSE, core_shares
from sample_profiler.analysis.facts import ComponentLoad
from sample_profiler.analysis.findings import Advice, Finding, JudgedRun, percent
from sample_profiler.analysis.rules.confined import describe_cores
from sample_profiler.analysis.rules.enough_data import slow_start
from sample_profiler.analysis.rules.sampling import own_inference
from sample_profiler.component_id import INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER
from sample_profiler.vocabulary import NUM_THREADS, NUM_USEFUL_THREADS

__all__ = [
    *("balanced", "mention_other_programs", "processor", "too_few_threads", "too_many_threads"),
    "too_many_threads_at_start",
]

_SPARE_THREADS = 1.5
_SPARE_OF_TIED = 0.4  # where a worker has one core: its main thread wants no more than that, whoever has the core
_WITHOUT_THEM = 2.0  # by which factor a run may be faster without threads that are too many: 2.2 to 2.3 was seen
_IDLE_CORES = 0.8
_WORTH_TELLING = 0.01  # of the cores
_MUCH_OF_OTHERS = 0.3  # of the cores
_USED = 0.8  # of the Learner's threads while it works: else more of them would idle, too


def too_many_threads(run: JudgedRun) -> Finding | None:
    """A process has more threads that are ready to run than cores are meant for it, and they wait for each other."""
    if not run.facts.num_cores:
        return None
    crowded = [each for each in run.facts.components if _has_too_many_threads(run, each)]
    if not crowded:
        return None
    load = max(crowded, key=lambda each: each.starved or 0.0)
    cores = _own_cores(run, load)
    evidence = [
        f"on average {_wanted_cores(load):.1f} of its threads were ready to run, on {cores} core{'s' * (cores > 1)}",
        f"{load.starved or 0.0:.1f} of them had none, though they hold what others wait for",
    ]
    if len(crowded) > 1:
        evidence.append(f"processes of which that is true: {len(crowded)}")
    whose = "there are cores" if cores == run.facts.num_cores else "it has cores"
    headline = f"{load.name} has more busy threads than {whose}"
    return Finding("too many threads", load.name, headline, evidence, _fewer_threads(run, load))


def too_many_threads_at_start(run: JudgedRun) -> Finding | None:
    """Environments step so slowly that the run hardly became steady, for a worker has more threads than cores."""
    if slow_start(run) is None:
        return None
    finding = too_many_threads(run)
    return finding if finding is not None and finding.component.startswith(ROLLOUT_WORKER) else None


def _has_too_many_threads(run: JudgedRun, load: ComponentLoad) -> bool:
    cores = _own_cores(run, load)
    spare = _SPARE_OF_TIED if cores == 1 and load.kind == ROLLOUT_WORKER else _SPARE_THREADS
    return _wanted_cores(load) >= cores + spare and (load.starved or 0.0) >= spare


def _wanted_cores(load: ComponentLoad) -> float:
    return (load.cpu or 0.0) + (load.starved or 0.0)


def _own_cores(run: JudgedRun, load: ComponentLoad) -> int:
    """Return how many cores a process may use without taking them from others: all, or its part of them.

    RolloutWorkers are tied to theirs, unless that is not wanted. Then, as with several Learners, more than their part
    is too much where all processes together want more than there is; a single Learner is given all on purpose.
    """
    cores = run.facts.num_cores or 1
    is_worker = load.kind == ROLLOUT_WORKER
    sharing = {ROLLOUT_WORKER: len(run.workers), LEARNER: len(run.facts.learners)}.get(load.kind, 1)
    is_tied = is_worker and bool(run.facts.flag("set_workers_cpu_affinity", True))
    is_short = sum(map(_wanted_cores, run.facts.components)) >= cores + _SPARE_THREADS
    return max(1, -(-cores // sharing)) if is_tied or is_short else cores


def _fewer_threads(run: JudgedRun, load: ComponentLoad) -> list[Advice]:
    why = "threads beyond the cores only wait for each other"
    if load.kind == ROLLOUT_WORKER:
        gain = run.gain(run.learner_room(_WITHOUT_THEM), 0.1)
        own = Advice(
            "one thread in what environments load",
            "torch.set_num_threads(1) or cv2.setNumThreads(1), where a library asks no variable of the environment",
        )
        if run.facts.flag("force_envs_single_thread", False):
            return [own]
        return [Advice("--force_envs_single_thread=True", why, gain), own]
    cores = run.facts.num_cores or 1
    shares = {LEARNER: len(run.facts.learners), INFERENCE_WORKER: 4 * len(run.inference)}
    threads = max(1, cores // shares.get(load.kind, cores))
    # The processors that a Learner gives back are those of all others, too.
    gain = run.gain(_WITHOUT_THEM if load.kind == LEARNER else run.learner_room(_WITHOUT_THEM), 0.1)
    why += "; by itself this process takes so many, whatever OMP_NUM_THREADS says: look where more are asked for"
    return [Advice(f"torch.set_num_threads({threads})", why, gain)]


def too_few_threads(run: JudgedRun) -> Finding | None:
    """The Learner sets the pace, uses all of its threads, more would be of use, and cores are idle."""
    learner, cores = run.learner, run.facts.num_cores
    if learner is None or not cores or run.is_on_gpu:
        return None
    if not run.is_paced_by_learner or run.num_idle < _IDLE_CORES:
        return None
    threads = int(learner.gauges.get(NUM_THREADS, 0.0))
    useful = learner.gauges.get(NUM_USEFUL_THREADS) or cores
    if not 0 < threads < min(cores, useful) or (learner.cpu or 0.0) < _USED * threads * learner.busy:
        return None
    more = min(cores, threads + max(1, int(run.num_idle)))
    policies = int(run.facts.flag("num_policies", 1))
    factor = run.room(min(more / threads, run.sampling_room()))
    evidence = [
        f"{learner.name} works {percent(learner.busy)} of the time, with {threads} of {cores} cores at most",
        *run.describe_waits_for_learner(),
        f"{run.num_idle:.1f} cores are idle",
    ]
    why = f"where the network is made; by itself each Learner takes at most {max(1, cores // policies)}"
    advice = [Advice(f"torch.set_num_threads({more})", why, run.gain(factor, 0.2))]
    if cores // more < policies:
        why = "the cores are divided between the Learners of all policies"
        advice.append(Advice(f"--num_policies={max(1, cores // more)}", why))
    return Finding("too few threads", learner.name, "The Learner has too few threads", evidence, advice)


def processor(run: JudgedRun) -> Finding | None:
    """All cores are busy, and nobody is waited for."""
    if not run.is_saturated or not run.facts.num_cores:
        return None
    used = core_shares(run)
    largest = max(used, key=lambda what: used[what])
    evidence = [f"all {run.facts.num_cores} cores are {percent(run.facts.machine_busy or 0.0)} busy"]
    evidence += [
        f"{what} {'use' if what in OUTSIDE else 'uses'} {percent(share)} of them"
        for what, share in sorted(used.items(), key=lambda u: -u[1])
        if share >= _WORTH_TELLING or what in WHOSE
    ]
    evidence += [*run.describe_sleeps(*run.workers), *describe_cores(run)]
    change = "more cores" if run.is_on_gpu else "more cores, or a GPU for the network"
    advice = [Advice(change, "no component waits for another one for long")]
    if run.may_gain_by_bf16 and not run.is_on_gpu and used[TRAINING] + used[INFERENCE] > 0.5:
        advice.insert(0, Advice("--precision=bf16", "where the processor has it", run.gain(1.35, 0.1)))
    advice = own_inference(run) + advice
    headline = f"The processors are used up, most of them by {largest}"
    if largest in OUTSIDE:
        advice.insert(0, Advice("a machine of its own", f"{largest} use {percent(used[largest])} of the cores"))
    elif largest in WHOSE:
        headline += "; the components are in balance"
    component = WHOSE.get(largest, "")
    if component == INFERENCE_WORKER and not run.inference:
        component = ROLLOUT_WORKER
    return Finding("processor", component, headline, evidence, advice)


def balanced(run: JudgedRun) -> Finding:
    """No other rule holds."""
    evidence = [
        f"workers are busy {percent(run.worker_busy)} of the time, inference {percent(run.inference_busy)}, "
        f"the Learner {percent(run.learner.busy if run.learner else 0.0)}"
    ]
    if run.facts.machine_busy is not None:
        evidence.append(f"all cores together are {percent(run.facts.machine_busy)} busy")
    headline = "Nothing limits the run more than the rest"
    return Finding("balanced", "", headline, evidence, own_inference(run))


def mention_other_programs(run: JudgedRun, finding: Finding) -> Finding:
    """Add to what another rule has found that others use much of the processors: all of the run takes longer then."""
    if finding.cause == "processor" or not run.is_crowded or not run.facts.num_cores:
        return finding
    used = core_shares(run)
    finding.evidence.extend(
        f"{what} use {percent(used[what])} of the {run.facts.num_cores} cores"
        for what in OUTSIDE
        if used.get(what, 0.0) >= _MUCH_OF_OTHERS
    )
    return finding
