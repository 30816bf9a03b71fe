"""Makes components, each in the process where it runs, from the blueprint of the run.

What needs torch is imported inside the function that makes it: a RolloutWorker has no use for it.
"""

from __future__ import annotations

import logging
import math
import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sample_profiler.component_id import INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER, ComponentId
from sample_profiler.components.batcher import Batcher, BatcherPorts
from sample_profiler.components.rollout_worker.worker import RolloutWorker, RolloutWorkerOptions, RolloutWorkerPorts
from sample_profiler.config.seeds import derive_seed
from sample_profiler.envs import EnvPlacement, import_registration, make_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.errors import CheckpointError
from sample_profiler.model.registry import ModelParts, import_model_parts, registered_parts
from sample_profiler.profiling import Timing
from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.run.layout.blueprint import Blueprint, frames_per_step
from sample_profiler.runtime.machine.core_shares import choose_training_threads
from sample_profiler.runtime.machine.libraries import keep_freed_memory
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.messages.heartbeats import Pulse
from sample_profiler.runtime.processes.child import is_runner_gone
from sample_profiler.runtime.surroundings.folder_lock import lock_until_exit
from sample_profiler.runtime.surroundings.process_settings import expect_changes
from sample_profiler.vocabulary import MAKE_INFERENCE

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from sample_profiler.components.evaluation import Evaluator
    from sample_profiler.components.inference_worker import InferenceWorker
    from sample_profiler.components.learner import Learner
    from sample_profiler.components.rollout_worker.self_serving_worker import SelfServingWorker
    from sample_profiler.config import Config
    from sample_profiler.envs.contract import EnvSpec
    from sample_profiler.model import PolicyNetwork
    from sample_profiler.ppo.ranks import Ranks
    from sample_profiler.ppo.schedules import LearningRateSchedule
    from sample_profiler.ppo.trainer import Trainer

__all__ = [
    *("check_own_parts", "make_batcher", "make_evaluator", "make_inference_worker", "make_learner", "make_model"),
    *("make_network", "make_rollout_worker", "make_self_serving_worker"),
]

logger = logging.getLogger(__name__)

_IMAGE_ENCODER_STEPS = 128
_COMPILE_S = 600.0  # that torch.compile may take
_LOCK_PATIENCE_S = 10.0  # with a Learner of a killed run that sees, late, that it comes too late
_MICRO_BATCH_STEPS = 4096  # bounds the memory of activations on processors
_IMAGE_STEP_BYTES, _STEP_BYTES = 1 << 18, 1 << 15  # of activations and gradients on a GPU, with images and without
_SHARE_OF_ACTIVATIONS = 0.25  # of the memory that is free on a GPU
_SEED_ENV, _SEED_SAMPLING, _SEED_LEARNER, _SEED_WORKER, _SEED_EVALUATION = range(5)


def make_rollout_worker(
    blueprint: Blueprint, index: int, attempt: int, reports: Reports, timing: Timing | None = None
) -> RolloutWorker:
    """Make a RolloutWorker; `attempt` counts those that had its place before, and `timing` may have begun already."""
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
        options=RolloutWorkerOptions(
            sampling=sampling,
            value_bootstrap=config.loss.value_bootstrap,
            frames_per_step=frames_per_step(config),
            bad_numbers=BadNumbers(blueprint.env_name, stops=config.faults.on_bad_numbers == "stop"),
            is_replacement=attempt > 0,
            is_alone=sampling.serial_mode and blueprint.trains,
            is_quick=bool(blueprint.counters.goal_times.names),
            first_frames=blueprint.first_frames,
        ),
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
        timing=timing,
    )


def make_self_serving_worker(blueprint: Blueprint, index: int, attempt: int, reports: Reports) -> SelfServingWorker:
    """Make a RolloutWorker that draws its actions itself."""
    from sample_profiler.components.rollout_worker.self_serving_worker import SelfServingWorker

    # Networks first: an environment may change what PyTorch makes them of, such as its default type.
    timing = Timing(f"{ComponentId(ROLLOUT_WORKER, index=index)} profile")
    with timing.add_time(MAKE_INFERENCE):
        inference = [
            _build_inference_worker(blueprint, policy, index, timing)
            for policy in range(blueprint.config.sampling.num_policies)
        ]
    expect_changes()
    return SelfServingWorker(make_rollout_worker(blueprint, index, attempt, reports, timing), inference)


def make_inference_worker(blueprint: Blueprint, policy: int, index: int, _: Reports) -> InferenceWorker:
    """Make one of the InferenceWorkers of a policy."""
    return _build_inference_worker(blueprint, policy, index)


def _build_inference_worker(
    blueprint: Blueprint, policy: int, index: int, timing: Timing | None = None
) -> InferenceWorker:
    # Not at the top: RolloutWorkers and the Runner read this module, and torch would cost each 170 MB and a second.
    import torch

    from sample_profiler.components.inference_worker import InferenceModel, InferenceWorker, InferenceWorkerPorts
    from sample_profiler.model.precision import InferenceNetwork

    device = torch.device(blueprint.device)
    precision = blueprint.precision
    generator = torch.Generator(device=device)
    generator.manual_seed(derive_seed(blueprint.seed, _SEED_SAMPLING, policy, index))
    worker = InferenceWorker(
        policy=policy,
        index=index,
        plan=blueprint.plan,
        model=InferenceModel(
            network=InferenceNetwork(make_model(blueprint, policy).to(device).eval(), precision),
            device=device,
            precision=precision,
            generator=generator,
            wants_graphs=blueprint.config.run.cuda_graphs,
        ),
        weights=blueprint.weights[policy],
        trajectories=blueprint.trajectories.of_policy(policy),
        # Made last where it is its own: what comes before counts as start_up.
        timing=timing or Timing(f"{ComponentId(INFERENCE_WORKER, policy, index)} profile"),
        ports=InferenceWorkerPorts(
            requests=blueprint.channels.asked[policy][index],
            first_weights=blueprint.channels.first_weights[policy][index],
            actions=blueprint.channels.actions,
        ),
    )
    _measure_device(blueprint, worker.timing)
    return worker


def make_evaluator(blueprint: Blueprint, policy: int, reports: Reports) -> Evaluator:
    """Make the Evaluator of a policy."""
    from sample_profiler.components.evaluation import Evaluator, EvaluatorOptions
    from sample_profiler.model.policy import Policy

    config = blueprint.config
    import_registration(blueprint.env_name, blueprint.env_payload)
    number = config.sampling.num_workers * config.sampling.num_envs_per_worker + policy
    placement = EnvPlacement(
        worker_index=config.sampling.num_workers + policy, vector_index=0, env_id=number
    )  # behind those of all workers
    seed = derive_seed(blueprint.seed, _SEED_EVALUATION, policy)
    make = partial(make_env, blueprint.env_name, config, placement)
    roles = blueprint.plan.cast(policy, blueprint.env_spec.kinds)

    def make_policy(number: int) -> Policy:
        spec = blueprint.spec_of(number)
        made = Policy(make_model(blueprint, number), spec.observation_space, spec.action_space)
        made.generator.manual_seed(seed if number == policy else derive_seed(seed, number))
        return made

    own = make_policy(policy)
    others = {number: (make_policy(number), blueprint.weights[number]) for number in sorted({*roles} - {policy})}
    expect_changes()
    return Evaluator(
        index=policy,
        policy=own,
        make_env=partial(AgentsEnv, make, blueprint.env_spec, blueprint.env_name, number, seed),
        weights=blueprint.weights[policy],
        counters=blueprint.counters,
        options=EvaluatorOptions(
            every_frames=config.evaluation.eval_every_steps,
            num_episodes=config.evaluation.eval_num_episodes,
            frames_per_step=frames_per_step(config),
            bad_numbers=BadNumbers(blueprint.env_name, stops=config.faults.on_bad_numbers == "stop", is_training=False),
        ),
        reports=reports,
        roles=roles,
        others=others,
    )


def make_batcher(blueprint: Blueprint, policy: int, _: Reports) -> Batcher:
    """Make the Batcher of a policy."""
    channels, sampling = blueprint.channels, blueprint.config.sampling
    return Batcher(
        policy=policy,
        plan=blueprint.plan,
        max_datasets=1 + sampling.num_batches_to_accumulate if sampling.async_rl else 1,
        ports=BatcherPorts(
            finished=channels.finished[policy],
            trained=channels.trained[policy],
            datasets=channels.datasets[policy],
            free=channels.free,
        ),
    )


def make_learner(blueprint: Blueprint, policy: int, told: frozenset[type], reports: Reports) -> Learner:
    """Make the Learner of a policy; `told` are the messages that somebody wants to be told of."""
    import torch

    from sample_profiler.components.learner import Learner, LearnerMemory, LearnerOptions, LearnerPorts
    from sample_profiler.model.kernels.built import KERNELS
    from sample_profiler.storage.checkpoints import CheckpointFolder

    config, channels = blueprint.config, blueprint.channels
    device = torch.device(blueprint.device)
    model = make_model(blueprint, policy).to(device)
    micro_batch_steps = min(config.sampling.batch_size, _most_micro_batch_steps(blueprint, policy))
    # What a GPU multiplies says nothing of what is left for the processor.
    of_step = model.num_multiplications if device.type == "cpu" else None
    num_useful_threads = choose_training_threads(None if of_step is None else of_step * micro_batch_steps)
    added = {"env_spec": blueprint.spec_of(policy).to_data()}
    checkpoints = CheckpointFolder(blueprint.run_folder, policy, config.saving.keep_checkpoints, added)
    # The threads of a program that goes on are its own, and it has no Learner that outlives its Runner.
    if not config.sampling.serial_mode:
        if blueprint.place.is_first:  # who alone writes checkpoints
            _lock_checkpoints(checkpoints.path)
        torch.set_num_threads(min(num_useful_threads, torch.get_num_threads()))
    description = policy, model.describe(), KERNELS, torch.get_num_threads()
    logger.info("Policy %d: %s; kernels of networks: %s; threads: %d", *description)
    timing = Timing(f"Learner {policy} profile")
    ranks = _meet_ranks(blueprint, policy, device, timing, reports)
    trainer = _make_trainer(blueprint, model, device, timing, ranks)
    _measure_device(blueprint, trainer.timing)
    with ranks.failing_together():  # a checkpoint that cannot be loaded is the affair of all
        return Learner(
            policy=policy,
            dataset_slots=blueprint.plan.dataset_slots,
            trainer=trainer,
            options=LearnerOptions(
                sampling=config.sampling,
                loss=config.loss,
                saving=config.saving,
                frames_per_step=frames_per_step(config) * blueprint.place.size,
                micro_batch_steps=micro_batch_steps,
                encoder_steps=_choose_encoder_steps(blueprint, policy, micro_batch_steps),
                seed=derive_seed(blueprint.seed, _SEED_LEARNER, policy),
                first_step_patience_s=_COMPILE_S if config.run.compile else 0.0,
                num_useful_threads=num_useful_threads,
                told=told,
            ),
            memory=LearnerMemory(
                trajectories=blueprint.trajectories.of_policy(policy),
                weights=blueprint.weights[policy],
                counters=blueprint.counters,
                checkpoints=checkpoints,
            ),
            ports=LearnerPorts(
                datasets=channels.datasets[policy],
                trained=channels.trained[policy],
                first_weights=channels.first_weights[policy],
                reports=reports,
            ),
        )


def _make_trainer(
    blueprint: Blueprint, model: PolicyNetwork, device: torch.device, timing: Timing, ranks: Ranks
) -> Trainer:
    from sample_profiler.ppo.optimizers import make_optimizer
    from sample_profiler.ppo.trainer import Trainer, TrainerOptions

    config = blueprint.config
    return Trainer(
        model=model,
        optimizer=make_optimizer(model.parameters(), config.optimizer),
        schedule=_make_schedule(config),
        options=TrainerOptions(
            loss=config.loss,
            max_grad_norm=config.optimizer.max_grad_norm,
            precision=blueprint.precision,
            compiles=config.run.compile,
            skips_bad_numbers=config.faults.on_bad_numbers == "skip",
        ),
        device=device,
        timing=timing,
        ranks=ranks,
    )


def _make_schedule(config: Config) -> LearningRateSchedule:
    from sample_profiler.ppo.schedules import make_schedule

    saving = config.saving
    # A run that is ended by its time and gone on with later learns as one that was not, if it is told how far it goes.
    has_target = saving.train_for_env_steps < type(saving)().train_for_env_steps
    seconds = math.inf if has_target else saving.train_for_seconds
    return make_schedule(config.optimizer, saving.train_for_env_steps, seconds)


def _meet_ranks(blueprint: Blueprint, policy: int, device: torch.device, timing: Timing, reports: Reports) -> Ranks:
    from sample_profiler.ppo.ranks import Ranks, connect_ranks

    if blueprint.place.size == 1:
        return Ranks()
    timeout_s = blueprint.config.remote.rank_timeout
    with Pulse(str(ComponentId(LEARNER, policy)), reports).beating(timeout_s):
        return connect_ranks(blueprint.place, policy, device, timeout_s, timing)


def _lock_checkpoints(folder: Path) -> None:
    """Keep other Learners out of a folder of checkpoints until this process ends.

    Raises:
        CheckpointError: the Runner has ended, so the folder may be another run's by now; or another Learner stays.
    """
    is_free = not is_runner_gone() and lock_until_exit(folder, _LOCK_PATIENCE_S)
    if is_runner_gone():  # asked again, with the lock: who takes the run's folder from now on waits for it
        raise CheckpointError(f"{folder} may be another run's by now: the Runner of this one has ended")
    if not is_free:
        raise CheckpointError(f"another process writes to {folder}: wait for its end, or kill it")


def _measure_device(blueprint: Blueprint, timing: Timing) -> None:
    """Let this process measure its device, if it has one and the run wants that."""
    mode = blueprint.config.profiling.profile_device
    if mode != "off":
        clock = device_clock.device_clock_for(blueprint.device)
        device_clock.set_device_clock(clock, synchronize=mode == "synchronize")
        device_clock.mark_distorted(timing)


def make_model(blueprint: Blueprint, policy: int) -> PolicyNetwork:
    """Build the network of a policy: with the same weights wherever it is built."""
    import torch

    torch.manual_seed(derive_seed(blueprint.seed, _SEED_LEARNER, policy))
    keep_freed_memory()
    # Denormal numbers, frequent in optimizer states and recurrent networks, slow a processor down a hundred times.
    torch.set_flush_denormal(True)
    import_model_parts(blueprint.model_payload)
    return make_network(blueprint.config, blueprint.spec_of(policy))


def check_own_parts(config: Config, env_spec: EnvSpec) -> None:
    """Build the network once if parts of it are the user's own, to find out whether they fit.

    Raises:
        ConfigError, ModelError: they do not.
    """
    if registered_parts(config) == ModelParts():  # then what could be wrong has been checked without PyTorch
        return
    import torch

    with torch.random.fork_rng(devices=()):
        for spec in env_spec.of_kinds():
            make_network(config, spec)


def make_network(config: Config, spec: EnvSpec) -> PolicyNetwork:
    """Build the network that a configuration describes for an environment, registered parts of it included.

    Raises:
        ConfigError, ModelError: parts of it do not fit.
    """
    from sample_profiler.model import make_actor_critic

    spaces = spec.observation_space, spec.action_space
    return make_actor_critic(config.model, config.observations, *spaces, registered_parts(config))


def _most_micro_batch_steps(blueprint: Blueprint, policy: int) -> int:
    """Return how many steps may go through the network at once: on a GPU, as many as there is memory for.

    There, each pass is as long as the launches of its kernels, whatever is in it.
    """
    if blueprint.device == "cpu":
        return _MICRO_BATCH_STEPS
    import torch

    num_free_bytes, _ = torch.cuda.mem_get_info()
    num_bytes = _IMAGE_STEP_BYTES if _has_images(blueprint, policy) else _STEP_BYTES
    return max(_MICRO_BATCH_STEPS, int(num_free_bytes * _SHARE_OF_ACTIVATIONS) // num_bytes)


def _choose_encoder_steps(blueprint: Blueprint, policy: int, micro_batch_steps: int) -> int:
    """Choose how many steps go through the encoder at once.

    With images, as few as keep the activations in a core's cache; with vectors, or on a GPU, all.
    """
    return _IMAGE_ENCODER_STEPS if _has_images(blueprint, policy) and blueprint.device == "cpu" else micro_batch_steps


def _has_images(blueprint: Blueprint, policy: int) -> bool:
    return any(len(space.shape or ()) == 3 for space in blueprint.spec_of(policy).observation_space.values())
