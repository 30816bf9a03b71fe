"""What uses which share of the processors: the parts of a run, and what is none of it."""

from __future__ import annotations

from sample_profiler.analysis.facts import ComponentLoad
from sample_profiler.analysis.findings import JudgedRun, cores_in
from sample_profiler.component_id import INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER
from sample_profiler.vocabulary import HANDLE_POLICY_STEP

__all__ = ["INFERENCE", "OUTSIDE", "STEPPING", "TRAINING", "WHOSE", "core_shares"]

TRAINING, INFERENCE, STEPPING = "training", "inference", "stepping environments"

WHOSE = {TRAINING: LEARNER, INFERENCE: INFERENCE_WORKER, STEPPING: ROLLOUT_WORKER}
"""The kind of component that does it."""

_WORK_OF = {kind: what for what, kind in WHOSE.items()}
_STARTING, _REST = "starting processes", "what else the run does"
_OTHER_PROGRAMS, _NOT_COMPONENTS = "other programs", "processes outside the run's components"
OUTSIDE = (_OTHER_PROGRAMS, _NOT_COMPONENTS)
"""What is no component's."""


def core_shares(run: JudgedRun) -> dict[str, float]:
    """Return what uses which share of the cores.

    Games in processes of their own are environments. Of a recording that does not tell their time, they are among what
    is outside of the components, with the programs of others. Starting is told apart where there is any.
    """
    num_cores = run.facts.num_cores or 1
    used = dict.fromkeys((*WHOSE, _REST), 0.0)
    starting = 0.0
    for load in run.facts.components:
        part, in_start = run.part_of_process(load), _cores_in_start(load)
        drawing = cores_in(load, HANDLE_POLICY_STEP) if load.kind == ROLLOUT_WORKER else 0.0
        own = max(0.0, (load.cpu or 0.0) - in_start - drawing) + (load.children_cpu or 0.0)
        starting += part * in_start
        used[INFERENCE] += part * drawing
        used[_WORK_OF.get(load.kind, _REST)] += part * own
    if starting:
        used[_STARTING] = starting
    outside = _NOT_COMPONENTS if None in [load.children_cpu for load in run.workers] else _OTHER_PROGRAMS
    used[outside] = max(0.0, (run.facts.machine_busy or 0.0) * num_cores - sum(used.values()))
    return {what: share / num_cores for what, share in used.items()}


def _cores_in_start(load: ComponentLoad) -> float:
    """Return the cores that it takes until a component takes part: as much of its processor time as of its work."""
    work_s = load.account.work_s
    return (load.cpu or 0.0) * load.account.start_s / work_s if work_s else 0.0
