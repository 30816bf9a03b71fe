"""What all components share: processors, their threads, and the case in which nothing stands out."""

from __future__ import annotations

from sample_profiler.analysis.facts import ComponentLoad
from sample_profiler.analysis.findings import POLICY_STEP, Advice, Finding, JudgedRun, percent
from sample_profiler.analysis.rules.sampling import own_inference

__all__ = ["balanced", "processor", "too_few_threads", "too_many_threads"]

_SPARE_THREADS = 1.5
_IDLE_CORES = 0.8
_USED = 0.8  # of the Learner's threads while it works: else more of them would idle, too


def too_many_threads(run: JudgedRun) -> Finding | None:
    """A process has more threads that are ready to run than there are cores."""
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
    return Finding("too many threads", name, headline, evidence, advice)


def too_few_threads(run: JudgedRun) -> Finding | None:
    """The Learner sets the pace and uses all of its threads, fewer than there are cores, and others are idle."""
    learner, cores = run.learner, run.facts.num_cores
    if learner is None or not cores or learner.device:
        return None
    if not run.is_paced_by_learner or run.num_idle < _IDLE_CORES:
        return None
    threads = int(learner.gauges.get("num_threads", 0.0))
    if not 0 < threads < cores or (learner.cpu or 0.0) < _USED * threads * learner.busy:
        return None
    more = min(cores, threads + max(1, int(run.num_idle)))
    policies = int(run.facts.flag("num_policies", 1))
    factor = run.room(min(more / threads, run.sampling_room()))
    evidence = [
        f"{learner.name} works {percent(learner.busy)} of the time, with {threads} of {cores} cores at most",
        *run.describe_waits_for_learner(),
        f"{run.num_idle:.1f} cores are idle",
    ]
    why = f"where the network is made; by itself each Learner takes {max(1, cores // policies)}"
    advice = [Advice(f"torch.set_num_threads({more})", why, run.gain(factor, 0.2))]
    if cores // more < policies:
        why = "the cores are divided between the Learners of all policies"
        advice.append(Advice(f"--num_policies={max(1, cores // more)}", why))
    return Finding("too few threads", learner.name, "The Learner has too few threads", evidence, advice)


def processor(run: JudgedRun) -> Finding | None:
    """All cores are busy, and nobody is waited for."""
    if not run.is_saturated or not run.facts.num_cores:
        return None
    used = {
        kind: sum(load.cpu or 0.0 for load in run.facts.of_kind(kind)) / run.facts.num_cores
        for kind in ("Learner", "InferenceWorker", "RolloutWorker")
    }
    # What runs outside of the components' own processes is environments, if anything of the run.
    used["RolloutWorker"] += max(0.0, (run.facts.machine_busy or 0.0) - sum(used.values()))
    action_sampling = sum(map(_cores_for_actions, run.workers)) / run.facts.num_cores
    used["RolloutWorker"] -= action_sampling
    used["InferenceWorker"] += action_sampling
    largest = max(used, key=lambda kind: used[kind])
    names = {"Learner": "training", "InferenceWorker": "inference", "RolloutWorker": "stepping environments"}
    evidence = [f"all {run.facts.num_cores} cores are {percent(run.facts.machine_busy or 0.0)} busy"]
    evidence += [
        f"{names[kind]} uses {percent(share)} of them" for kind, share in sorted(used.items(), key=lambda u: -u[1])
    ]
    advice = [Advice("more cores, or a GPU for the network", "no component waits for another one for long")]
    if run.may_gain_by_bf16 and used["Learner"] + used["InferenceWorker"] > 0.5:
        advice.insert(0, Advice("--precision=bf16", "where the processor has it", run.gain(1.35, 0.1)))
    advice = own_inference(run) + advice
    return Finding(
        "processor",
        "RolloutWorker" if largest == "InferenceWorker" and not run.inference else largest,
        f"The processors are used up, most of them by {names[largest]}; the components are in balance",
        evidence,
        advice,
    )


def _cores_for_actions(worker: ComponentLoad) -> float:
    """Return what a worker that draws its actions itself uses of the cores for that: as much as of its working time."""
    if not worker.busy:
        return 0.0
    return (worker.cpu or 0.0) * min(1.0, worker.blocks.get(POLICY_STEP, 0.0) / worker.busy)


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
