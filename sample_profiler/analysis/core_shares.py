"""What uses which share of the processors: the parts of a run, and what is none of it."""

from __future__ import annotations

from sample_profiler.analysis.findings import JudgedRun, cores_in
from sample_profiler.component_id import INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER
from sample_profiler.vocabulary import HANDLE_POLICY_STEP

__all__ = ["INFERENCE", "OUTSIDE", "STEPPING", "TRAINING", "WHOSE", "core_shares"]

TRAINING, INFERENCE, STEPPING = "training", "inference", "stepping environments"

WHOSE = {TRAINING: LEARNER, INFERENCE: INFERENCE_WORKER, STEPPING: ROLLOUT_WORKER}
"""The kind of component that does it."""

_OTHER_PROGRAMS, _NOT_COMPONENTS = "other programs", "processes outside the run's components"
OUTSIDE = (_OTHER_PROGRAMS, _NOT_COMPONENTS)
"""What is no component's."""


def core_shares(run: JudgedRun) -> dict[str, float]:
    """Return what uses which share of the cores.

    Games in processes of their own are environments. Of a recording that does not tell their time, they are among what
    is outside of the components, with the programs of others.
    """
    num_cores = run.facts.num_cores or 1
    cores = {kind: sum(load.cpu or 0.0 for load in run.facts.of_kind(kind)) for kind in set(WHOSE.values())}
    action_sampling = sum(cores_in(load, HANDLE_POLICY_STEP) for load in run.workers)
    games = [load.children_cpu for load in run.workers]
    used = {
        TRAINING: cores[LEARNER],
        INFERENCE: cores[INFERENCE_WORKER] + action_sampling,
        STEPPING: cores[ROLLOUT_WORKER] - action_sampling + sum(each or 0.0 for each in games),
    }
    others = [load for load in run.facts.components if load.kind not in cores]
    used["what else the run does"] = sum((load.cpu or 0.0) + (load.children_cpu or 0.0) for load in others)
    outside = _OTHER_PROGRAMS if None not in games else _NOT_COMPONENTS
    used[outside] = max(0.0, (run.facts.machine_busy or 0.0) * num_cores - sum(used.values()))
    return {what: share / num_cores for what, share in used.items()}
