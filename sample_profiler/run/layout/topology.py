"""Says which components a run has, and what the process of each is like."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sample_profiler.component_id import (
    BATCHER,
    EVALUATOR,
    INFERENCE_WORKER,
    LEARNER,
    REMOTE_SAMPLER,
    ROLLOUT_WORKER,
    ComponentId,
)
from sample_profiler.config import Config
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.run.layout.factories import (
    make_batcher,
    make_evaluator,
    make_inference_worker,
    make_learner,
    make_rollout_worker,
    make_self_serving_worker,
)
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.loop.event_loop import Component
from sample_profiler.runtime.loop.recording import RecordingOptions
from sample_profiler.runtime.machine.core_shares import (
    choose_cpus,
    choose_inference_threads,
    choose_learner_threads,
    choose_worker_threads,
)
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.processes.child import ChildSettings, TellsChanges

__all__ = [
    *("ComponentPlan", "child_settings", "describe_processes", "plan_components", "plan_sampling"),
    *("plan_worker", "recording_options"),
]

_PATIENCE_S = 6.0
_LEARNER_PATIENCE_S = 120.0  # a training step under way is finished and saved
_REMOTE_PATIENCE_S = 60.0  # workers on other machines end in order


@dataclass(frozen=True)
class ComponentPlan:
    """A component that a run needs.

    Attributes:
        settings: what its process is like, in the parallel wiring.
        make: builds it.
    """

    settings: ChildSettings
    make: Callable[[Reports], Component]


def plan_components(
    blueprint: Blueprint, told: frozenset[type] = frozenset(), own: Sequence[ComponentPlan] = ()
) -> list[ComponentPlan]:
    """Return all components but the Runner, in the order in which the serial wiring gives them their turns.

    Args:
        blueprint: of the run.
        told: messages that somebody wants to be told of, of those that are not reported anyway.
        own: components of the user's own.
    """
    sampling = blueprint.config.sampling
    settings = partial(child_settings, blueprint)
    components = []
    for policy in range(sampling.num_policies):
        num_threads = choose_learner_threads(sampling.num_policies)
        learner = settings(ComponentId(LEARNER, policy), num_threads, patience_s=_LEARNER_PATIENCE_S)
        components.append(ComponentPlan(learner, partial(make_learner, blueprint, policy, told)))
        batcher = settings(ComponentId(BATCHER, policy), num_threads=1)
        components.append(ComponentPlan(batcher, partial(make_batcher, blueprint, policy)))
        for index in range(0 if sampling.inference == "worker" else sampling.policy_workers_per_policy):
            num_threads = choose_inference_threads(sampling.policy_workers_per_policy * sampling.num_policies)
            inference = settings(ComponentId(INFERENCE_WORKER, policy, index), num_threads)
            components.append(ComponentPlan(inference, partial(make_inference_worker, blueprint, policy, index)))
        if blueprint.config.evaluation.eval_every_steps:
            evaluator = replace(settings(ComponentId(EVALUATOR, policy), num_threads=1), has_environments=True)
            components.append(ComponentPlan(evaluator, partial(make_evaluator, blueprint, policy)))
    return [*components, *own, *(plan_worker(blueprint, index) for index in range(len(blueprint.plan.worker_slots)))]


def plan_worker(blueprint: Blueprint, index: int, attempt: int = 0) -> ComponentPlan:
    """Return one RolloutWorker, or what brings trajectories of other machines.

    Args:
        blueprint: of the run.
        index: of the worker.
        attempt: how many have had this place before and were lost; the environments' seeds are others each time.
    """
    if index == blueprint.plan.remote_worker:
        return _plan_remote_sampler(blueprint, attempt)
    sampling, machine = blueprint.config.sampling, blueprint.config.machine
    has_own_inference = sampling.inference == "worker"
    has_one_thread = machine.force_envs_single_thread or has_own_inference
    settings = child_settings(
        blueprint,
        ComponentId(ROLLOUT_WORKER, index=index),
        num_threads=1 if has_one_thread else choose_worker_threads(sampling.num_workers),
        cpus=choose_cpus(index, sampling.num_workers) if machine.set_workers_cpu_affinity else None,
    )
    make = make_self_serving_worker if has_own_inference else make_rollout_worker
    # One speaks for all. What constructors change has been said by the process in which one was tried.
    tells_changes: TellsChanges = "later" if index == attempt == 0 else "none"
    settings = replace(settings, has_environments=True, tells_changes=tells_changes)
    return ComponentPlan(settings, partial(make, blueprint, index, attempt))


def _plan_remote_sampler(blueprint: Blueprint, attempt: int) -> ComponentPlan:
    assert blueprint.make_remote_sampler is not None
    settings = child_settings(blueprint, REMOTE_SAMPLER, num_threads=1, patience_s=_REMOTE_PATIENCE_S)
    return ComponentPlan(settings, partial(blueprint.make_remote_sampler, blueprint, attempt))


def child_settings(
    blueprint: Blueprint,
    component: ComponentId | str,
    num_threads: int | None,
    cpus: tuple[int, ...] | None = None,
    patience_s: float = _PATIENCE_S,
) -> ChildSettings:
    """Return what the process of a component is like.

    Args:
        blueprint: of the run.
        component: which.
        num_threads: for numerical libraries; None leaves their defaults.
        cpus: the cores that it may use; None leaves all.
        patience_s: that it is given to finish.
    """
    config = blueprint.config
    return ChildSettings(
        str(component),
        patience_s=patience_s,
        niceness=config.machine.default_niceness,
        cpus=cpus,
        num_threads=num_threads,
        heartbeat_interval_s=config.machine.heartbeat_interval,
        hang_timeout_s=config.faults.hang_timeout,
        recording=recording_options(config, blueprint.run_folder),
        make_waiter=blueprint.transport.waiter_of(str(component)),
    )


def describe_processes(blueprint: Blueprint, own: Sequence[ComponentPlan] = ()) -> dict[str, dict[str, object]]:
    """Return what was chosen for the processes of a parallel run, by component.

    Args:
        blueprint: of the run.
        own: components of the user's own.

    Returns:
        Threads (None: the libraries' own choice) and cores (None: all).
    """
    settings = [plan.settings for plan in plan_components(blueprint, own=own)]
    return {each.name: {"threads": each.num_threads, "cores": each.cpus} for each in settings}


def recording_options(config: Config, run_folder: Path) -> RecordingOptions:
    """Return where the processes of a run show what they do."""
    ring_bytes = int(config.profiling.flight_recorder_mb * 2**20)
    return RecordingOptions(RunFolder(run_folder).live(config.profiling.profile_dir).path, ring_bytes)


def plan_sampling(blueprint: Blueprint) -> list[ComponentPlan]:
    """Return the components that sample, for somebody who stands where Batcher and Learner do.

    They leave no record files: the folder is the caller's, whose script may be recorded as a whole. And they wait for
    the caller for as long as it likes.
    """
    plans = [
        plan
        for plan in plan_components(blueprint)
        if ComponentId.parse(plan.settings.name).kind in (INFERENCE_WORKER, ROLLOUT_WORKER)
    ]
    return [
        replace(plan, settings=replace(plan.settings, recording=RecordingOptions(), hang_timeout_s=math.inf))
        for plan in plans
    ]
