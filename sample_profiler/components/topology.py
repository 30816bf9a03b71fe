"""Owns who talks to whom: every arrow of a run is made here, for both wirings.

```
            actions                       weights
   ┌──────────────────────┐        ┌─────────────────┐
   ▼                      │        ▼                 │
RolloutWorker ×W ─requests─► InferenceWorker ×I    Learner ×P ◄─datasets─┐
   │  ▲                                              └──trained──►       │
   │  └───────────────────── free ────────────────────────────────  Batcher ×P
   └──────────────────────── finished ──────────────────────────────────►┘
```

Parallel wiring: a process for each component, kernel pipes between them. Serial wiring: one process, in-process queues.
The components are the same, built by the same functions. With `--inference=worker` the arrows of requests and actions
are in-process queues in both wirings, and each RolloutWorker has its inference in its own process.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sample_profiler.components.bad_numbers import BadNumbers
from sample_profiler.components.batcher import Batcher, BatcherPorts
from sample_profiler.components.messages import Counters
from sample_profiler.components.rollout_worker import RolloutWorker, RolloutWorkerPorts
from sample_profiler.config import Config
from sample_profiler.envs import EnvPlacement, EnvSpec, import_registration, make_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.model.registry import export_model_parts, import_model_parts, registered_parts
from sample_profiler.profiling import Timing, device_clock
from sample_profiler.profiling.session import live_folder
from sample_profiler.runtime.channels import Channel, LocalChannel, Reports
from sample_profiler.runtime.child import ChildSettings
from sample_profiler.runtime.event_loop import Component
from sample_profiler.runtime.machine import (
    choose_cpus,
    choose_inference_threads,
    choose_learner_threads,
    derive_seed,
    keep_freed_memory,
)
from sample_profiler.runtime.recording import RecordingOptions
from sample_profiler.storage.checkpoint_names import newest_steps
from sample_profiler.storage.policy_weights import PolicyWeights
from sample_profiler.storage.sampling_plan import SamplingPlan, make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout

if TYPE_CHECKING:
    from sample_profiler.components.evaluation import Evaluator
    from sample_profiler.components.inference_worker import InferenceWorker
    from sample_profiler.components.learner import Learner
    from sample_profiler.components.self_serving_worker import SelfServingWorker
    from sample_profiler.model import ActorCritic

__all__ = [
    *("Blueprint", "ComponentPlan", "describe_processes", "make_blueprint", "make_model", "plan_components"),
    *("plan_rollout_worker", "plan_sampling"),
]

_IMAGE_ENCODER_STEPS = 128
_PATIENCE_S = 6.0
_COMPILE_S = 600.0  # that torch.compile may take
_LEARNER_PATIENCE_S = 120.0  # a training step under way is finished and saved
_MICRO_BATCH_STEPS = 4096  # bounds the memory of activations, about 130 KB a step with images
_SEED_ENV, _SEED_SAMPLING, _SEED_LEARNER, _SEED_WORKER, _SEED_EVALUATION = range(5)


@dataclass(frozen=True)
class Channels:
    """All channels of a run; the index is the receiver's or, for what a policy's components share, the policy's.

    Attributes:
        requests: by worker, by policy: RolloutWorker → InferenceWorkers, groups that want actions. Workers share the
            channel of a policy, unless each has inference of its own.
        actions: by worker: InferenceWorkers → RolloutWorker, groups whose actions are there.
        finished: by policy: RolloutWorkers → Batcher, filled slots.
        datasets: by policy: Batcher → Learner, slots to train on.
        trained: by policy: Learner → Batcher, slots that were trained on.
        free: by worker: Batchers → RolloutWorker, slots to fill again.
        first_weights: by policy, by InferenceWorker: Learner → InferenceWorker, the first weights are there.
    """

    requests: tuple[tuple[Channel, ...], ...]
    actions: tuple[Channel, ...]
    finished: tuple[Channel, ...]
    datasets: tuple[Channel, ...]
    trained: tuple[Channel, ...]
    free: tuple[Channel, ...]
    first_weights: tuple[tuple[Channel, ...], ...]

    @classmethod
    def make(cls, make_channel: Callable[[], Channel], config: Config) -> Channels:
        """Make the channels of a run."""
        sampling = config.sampling
        policies = range(sampling.num_policies)
        workers = range(sampling.num_workers)
        if sampling.inference == "worker":
            requests: tuple[tuple[Channel, ...], ...]
            requests = tuple(tuple(LocalChannel() for _ in policies) for _ in workers)
            actions: tuple[Channel, ...] = tuple(LocalChannel() for _ in workers)
            inference = workers
        else:
            requests = (tuple(make_channel() for _ in policies),) * len(workers)
            actions = tuple(make_channel() for _ in workers)
            inference = range(sampling.policy_workers_per_policy)
        return cls(
            requests=requests,
            actions=actions,
            finished=tuple(make_channel() for _ in policies),
            datasets=tuple(make_channel() for _ in policies),
            trained=tuple(make_channel() for _ in policies),
            free=tuple(make_channel() for _ in workers),
            first_weights=tuple(tuple(make_channel() for _ in inference) for _ in policies),
        )


@dataclass(frozen=True)
class Blueprint:
    """Everything that the components of a run are built from; travels to every process.

    Attributes:
        config: of the run.
        seed: of the run; all others are derived from it.
        env_name: the environment, and `env_payload` how to make it where it is not registered.
        model_payload: parts of networks that the user has registered.
        env_spec: its spaces and agents.
        plan: who samples what.
        trajectories, weights, counters: shared memory; weights by policy.
        channels: who talks to whom.
        run_folder: where the run's files are.
        device: "cpu" or "cuda".
    """

    config: Config
    seed: int
    env_name: str
    env_payload: bytes
    model_payload: dict[str, bytes]
    env_spec: EnvSpec
    plan: SamplingPlan
    trajectories: Trajectories
    weights: tuple[PolicyWeights, ...]
    counters: Counters
    channels: Channels
    run_folder: Path
    device: str


def make_blueprint(
    config: Config,
    seed: int,
    env_payload: bytes,
    env_spec: EnvSpec,
    run_folder: Path,
    device: str,
    make_channel: Callable[[], Channel],
) -> Blueprint:
    """Lay out a run and allocate what its components share."""
    sampling = config.sampling
    plan = make_sampling_plan(sampling, env_spec.num_agents)
    return Blueprint(
        config=config,
        seed=_seed_of_this_start(seed, newest_steps(run_folder, sampling.num_policies)),
        env_name=config.run.env,
        env_payload=env_payload,
        model_payload=export_model_parts(),
        env_spec=env_spec,
        plan=plan,
        trajectories=Trajectories(TrajectoryLayout.of(plan, env_spec, config.model.rnn_state_size)),
        weights=tuple(PolicyWeights() for _ in range(sampling.num_policies)),
        counters=Counters(sampling.num_workers, sampling.num_policies),
        channels=Channels.make(make_channel, config),
        run_folder=run_folder,
        device=device,
    )


def _seed_of_this_start(seed: int, steps_done: tuple[int, ...]) -> int:
    """Return another seed for each start of a run: resumed, it must not sample the same episodes again."""
    return derive_seed(seed, *steps_done) if any(steps_done) else seed


@dataclass(frozen=True)
class ComponentPlan:
    """A component that a run needs.

    Attributes:
        settings: what its process is like, in the parallel wiring.
        make: builds it.
    """

    settings: ChildSettings
    make: Callable[[Reports], Component]


def plan_components(blueprint: Blueprint) -> list[ComponentPlan]:
    """Return all components but the Runner, in the order in which the serial wiring gives them their turns."""
    sampling = blueprint.config.sampling
    settings = partial(_child_settings, blueprint)
    components = []
    for policy in range(sampling.num_policies):
        num_threads = choose_learner_threads(sampling.num_policies)
        learner = settings(f"Learner_{policy}", num_threads, patience_s=_LEARNER_PATIENCE_S)
        components.append(ComponentPlan(learner, partial(_make_learner, blueprint, policy)))
        batcher = settings(f"Batcher_{policy}", num_threads=1)
        components.append(ComponentPlan(batcher, partial(_make_batcher, blueprint, policy)))
        for index in range(0 if sampling.inference == "worker" else sampling.policy_workers_per_policy):
            num_threads = choose_inference_threads(sampling.policy_workers_per_policy * sampling.num_policies)
            inference = settings(f"InferenceWorker_p{policy}-w{index}", num_threads)
            components.append(ComponentPlan(inference, partial(_make_inference_worker, blueprint, policy, index)))
        if blueprint.config.evaluation.eval_every_steps:
            evaluator = settings(f"Evaluator_{policy}", num_threads=1)
            components.append(ComponentPlan(evaluator, partial(_make_evaluator, blueprint, policy)))
    return components + [plan_rollout_worker(blueprint, index) for index in range(sampling.num_workers)]


def plan_rollout_worker(blueprint: Blueprint, index: int, attempt: int = 0) -> ComponentPlan:
    """Return one RolloutWorker.

    Args:
        blueprint: of the run.
        index: of the worker.
        attempt: how many have had this place before and were lost; the environments' seeds are others each time.
    """
    sampling, machine = blueprint.config.sampling, blueprint.config.machine
    has_own_inference = sampling.inference == "worker"
    settings = _child_settings(
        blueprint,
        f"RolloutWorker_w{index}",
        num_threads=1 if machine.force_envs_single_thread or has_own_inference else None,
        cpus=choose_cpus(index, sampling.num_workers) if machine.set_workers_cpu_affinity else None,
    )
    make = _make_self_serving_worker if has_own_inference else _make_rollout_worker
    return ComponentPlan(settings, partial(make, blueprint, index, attempt))


def _child_settings(
    blueprint: Blueprint,
    name: str,
    num_threads: int | None,
    cpus: tuple[int, ...] | None = None,
    patience_s: float = _PATIENCE_S,
) -> ChildSettings:
    config = blueprint.config
    return ChildSettings(
        name,
        patience_s=patience_s,
        niceness=config.machine.default_niceness,
        cpus=cpus,
        num_threads=num_threads,
        heartbeat_interval_s=config.machine.heartbeat_interval,
        hang_timeout_s=config.faults.hang_timeout,
        recording=recording_options(config, blueprint.run_folder),
    )


def describe_processes(blueprint: Blueprint) -> dict[str, dict[str, object]]:
    """Return what was chosen for the processes of a parallel run, by component.

    Returns:
        Threads (None: the libraries' own choice) and cores (None: all).
    """
    settings = [plan.settings for plan in plan_components(blueprint)]
    return {each.name: {"threads": each.num_threads, "cores": each.cpus} for each in settings}


def recording_options(config: Config, run_folder: Path) -> RecordingOptions:
    """Return where the processes of a run show what they do."""
    ring_bytes = int(config.profiling.flight_recorder_mb * 2**20)
    return RecordingOptions(live_folder(run_folder, config.profiling.profile_dir), ring_bytes)


def plan_sampling(blueprint: Blueprint) -> list[ComponentPlan]:
    """Return the components that sample, for somebody who stands where Batcher and Learner do.

    They leave no record files: the folder is the caller's, whose script may be recorded as a whole. And they wait for
    the caller for as long as it likes.
    """
    plans = [
        plan
        for plan in plan_components(blueprint)
        if not plan.settings.name.startswith(("Learner_", "Batcher_", "Evaluator_"))
    ]
    return [
        replace(plan, settings=replace(plan.settings, recording=RecordingOptions(), hang_timeout_s=math.inf))
        for plan in plans
    ]


def _make_rollout_worker(blueprint: Blueprint, index: int, attempt: int, reports: Reports) -> RolloutWorker:
    config, channels = blueprint.config, blueprint.channels
    import_registration(blueprint.env_name, blueprint.env_payload)
    sampling = config.sampling
    if config.saving.benchmark:
        sampling = replace(sampling, decorrelate_experience_max_seconds=0.0)
    # For environments that draw from the global generators.
    random.seed(derive_seed(blueprint.seed, _SEED_WORKER, index, attempt))
    np.random.seed(derive_seed(blueprint.seed, _SEED_WORKER, index, attempt))

    def make_agents_env(env: int, index_in_worker: int) -> AgentsEnv:
        placement = EnvPlacement(worker_index=index, vector_index=index_in_worker, env_id=env)
        return AgentsEnv(
            partial(make_env, blueprint.env_name, config, placement),
            blueprint.env_spec,
            blueprint.env_name,
            env,
            derive_seed(blueprint.seed, _SEED_ENV, env, attempt),
        )

    return RolloutWorker(
        index=index,
        plan=blueprint.plan,
        sampling=sampling,
        value_bootstrap=config.loss.value_bootstrap,
        frameskip=frames_per_step(config),
        make_env=make_agents_env,
        trajectories=blueprint.trajectories,
        counters=blueprint.counters,
        ports=RolloutWorkerPorts(
            actions=channels.actions[index],
            free=channels.free[index],
            requests=channels.requests[index],
            finished=channels.finished,
            reports=reports,
        ),
        bad_numbers=BadNumbers(blueprint.env_name, stops=config.faults.on_bad_numbers == "stop"),
        is_replacement=attempt > 0,
    )


def _make_self_serving_worker(blueprint: Blueprint, index: int, attempt: int, reports: Reports) -> SelfServingWorker:
    from sample_profiler.components.self_serving_worker import SelfServingWorker

    worker = _make_rollout_worker(blueprint, index, attempt, reports)
    with worker.timing.add_time("make_inference"):
        inference = [
            _build_inference_worker(blueprint, policy, index, requests, worker.timing)
            for policy, requests in enumerate(blueprint.channels.requests[index])
        ]
    return SelfServingWorker(worker, inference)


def _make_inference_worker(blueprint: Blueprint, policy: int, index: int, _: Reports) -> InferenceWorker:
    return _build_inference_worker(blueprint, policy, index, blueprint.channels.requests[0][policy])


def _build_inference_worker(
    blueprint: Blueprint, policy: int, index: int, requests: Channel, timing: Timing | None = None
) -> InferenceWorker:
    # Not at the top: RolloutWorkers and the Runner read this module, and torch would cost each 170 MB and a second.
    import torch

    from sample_profiler.components.inference_worker import InferenceWorker, InferenceWorkerPorts
    from sample_profiler.model.precision import InferenceNetwork

    device = torch.device(blueprint.device)
    generator = torch.Generator(device=device)
    generator.manual_seed(derive_seed(blueprint.seed, _SEED_SAMPLING, policy, index))
    worker = InferenceWorker(
        policy=policy,
        index=index,
        plan=blueprint.plan,
        network=InferenceNetwork(make_model(blueprint, policy).to(device).eval(), blueprint.config.run.precision),
        device=device,
        precision=blueprint.config.run.precision,
        generator=generator,
        weights=blueprint.weights[policy],
        trajectories=blueprint.trajectories,
        # Made last where it is its own: what comes before counts as start_up.
        timing=timing or Timing(f"InferenceWorker_p{policy}-w{index} profile"),
        ports=InferenceWorkerPorts(
            requests=requests,
            first_weights=blueprint.channels.first_weights[policy][index],
            actions=blueprint.channels.actions,
        ),
    )
    _measure_device(blueprint, worker.timing)
    return worker


def _make_evaluator(blueprint: Blueprint, policy: int, reports: Reports) -> Evaluator:
    import torch

    from sample_profiler.components.evaluation import Evaluator

    config = blueprint.config
    import_registration(blueprint.env_name, blueprint.env_payload)
    number = config.sampling.num_workers * config.sampling.num_envs_per_worker + policy
    placement = EnvPlacement(
        worker_index=config.sampling.num_workers + policy, vector_index=0, env_id=number
    )  # behind those of all workers
    seed = derive_seed(blueprint.seed, _SEED_EVALUATION, policy)
    make = partial(make_env, blueprint.env_name, config, placement)
    generator = torch.Generator()
    generator.manual_seed(seed)
    return Evaluator(
        policy=policy,
        model=make_model(blueprint, policy),
        make_env=partial(AgentsEnv, make, blueprint.env_spec, blueprint.env_name, number, seed),
        weights=blueprint.weights[policy],
        counters=blueprint.counters,
        every_frames=config.evaluation.eval_every_steps,
        num_episodes=config.evaluation.eval_num_episodes,
        frames_per_step=frames_per_step(config),
        generator=generator,
        reports=reports,
    )


def _make_batcher(blueprint: Blueprint, policy: int, _: Reports) -> Batcher:
    channels, plan, sampling = blueprint.channels, blueprint.plan, blueprint.config.sampling
    return Batcher(
        policy=policy,
        dataset_slots=plan.dataset_slots,
        max_datasets=1 + sampling.num_batches_to_accumulate if sampling.async_rl else 1,
        worker_slots=[slots[policy] for slots in plan.worker_slots],
        ports=BatcherPorts(
            finished=channels.finished[policy],
            trained=channels.trained[policy],
            datasets=channels.datasets[policy],
            free=channels.free,
        ),
    )


def _make_learner(blueprint: Blueprint, policy: int, reports: Reports) -> Learner:
    import torch

    from sample_profiler.components.learner import Learner, LearnerMemory, LearnerOptions, LearnerPorts
    from sample_profiler.ppo.optimizers import make_optimizer
    from sample_profiler.ppo.schedules import make_schedule
    from sample_profiler.ppo.trainer import Trainer
    from sample_profiler.storage.checkpoints import CheckpointFolder

    config, channels = blueprint.config, blueprint.channels
    device = torch.device(blueprint.device)
    model = make_model(blueprint, policy).to(device)
    trainer = Trainer(
        model=model,
        optimizer=make_optimizer(model.parameters(), config.optimizer),
        schedule=make_schedule(config.optimizer, config.saving.train_for_env_steps),
        loss=config.loss,
        max_grad_norm=config.optimizer.max_grad_norm,
        device=device,
        timing=Timing(f"Learner {policy} profile"),
        precision=config.run.precision,
        compiles=config.run.compile,
        skips_bad_numbers=config.faults.on_bad_numbers == "skip",
    )
    _measure_device(blueprint, trainer.timing)
    return Learner(
        policy=policy,
        dataset_slots=blueprint.plan.dataset_slots,
        trainer=trainer,
        options=LearnerOptions(
            sampling=config.sampling,
            loss=config.loss,
            saving=config.saving,
            frames_per_step=frames_per_step(config),
            micro_batch_steps=min(config.sampling.batch_size, _MICRO_BATCH_STEPS),
            encoder_steps=_choose_encoder_steps(blueprint),
            seed=derive_seed(blueprint.seed, _SEED_LEARNER, policy),
            first_step_patience_s=_COMPILE_S if config.run.compile else 0.0,
        ),
        memory=LearnerMemory(
            trajectories=blueprint.trajectories,
            weights=blueprint.weights[policy],
            counters=blueprint.counters,
            checkpoints=CheckpointFolder(blueprint.run_folder, policy, config.saving.keep_checkpoints),
        ),
        ports=LearnerPorts(
            datasets=channels.datasets[policy],
            trained=channels.trained[policy],
            first_weights=channels.first_weights[policy],
            reports=reports,
        ),
    )


def _measure_device(blueprint: Blueprint, timing: Timing) -> None:
    """Let this process measure its device, if it has one and the run wants that."""
    mode = blueprint.config.profiling.profile_device
    if mode != "off":
        clock = device_clock.device_clock_for(blueprint.device)
        device_clock.set_device_clock(clock, synchronize=mode == "synchronize")
        device_clock.mark_distorted(timing)


def make_model(blueprint: Blueprint, policy: int) -> ActorCritic:
    """Build the network of a policy: with the same weights wherever it is built."""
    import torch

    from sample_profiler.model import make_actor_critic

    torch.manual_seed(derive_seed(blueprint.seed, _SEED_LEARNER, policy))
    keep_freed_memory()
    # Denormal numbers, frequent in optimizer states and recurrent networks, slow a processor down a hundred times.
    torch.set_flush_denormal(True)
    spec, config = blueprint.env_spec, blueprint.config
    import_model_parts(blueprint.model_payload)
    parts = registered_parts(config)
    return make_actor_critic(config.model, config.observations, spec.observation_space, spec.action_space, parts)


def frames_per_step(config: Config) -> int:
    """Return the frames that an agent step counts for."""
    return config.environment.env_frameskip if config.machine.summaries_use_frameskip else 1


def _choose_encoder_steps(blueprint: Blueprint) -> int:
    """Choose how many steps go through the encoder at once.

    With images, as few as keep the activations in a core's cache; with vectors, or on a GPU, all.
    """
    has_images = any(len(space.shape or ()) == 3 for space in blueprint.env_spec.observation_space.values())
    if has_images and blueprint.device == "cpu":
        return _IMAGE_ENCODER_STEPS
    return _MICRO_BATCH_STEPS
