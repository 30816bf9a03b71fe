"""Owns what is known of the memory that a run needs before it begins: what no machine can hold is refused then.

Imports no PyTorch. What counts is what is surely needed, so that nothing is refused that would fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium

from sample_profiler.config import Config
from sample_profiler.envs import EnvSpec
from sample_profiler.model.registry import recurrent_state_size, registered_parts
from sample_profiler.model.sizes import num_weights
from sample_profiler.profiling.process.machine import memory_gib
from sample_profiler.storage.sampling_plan import SamplingPlan
from sample_profiler.storage.trajectories import TrajectoryLayout

__all__ = ["find_excess_of_trajectories", "find_excess_of_weights", "num_copies_in_training"]

_BYTES_PER_WEIGHT = 4
_PUBLISHED = 2  # copies in shared memory: one to read, one to write
_LEARNER = 4  # the weights themselves, their gradients, and both moments of the optimizer


def find_excess_of_trajectories(config: Config, env_spec: EnvSpec, plan: SamplingPlan) -> list[str]:
    """Find trajectories that the machine's memory cannot hold."""
    layouts = TrajectoryLayout.of_kinds(plan, env_spec, recurrent_state_size(config))
    num_slots = [0] * len(layouts)  # of other kinds of agents they take no memory
    for policy in range(config.sampling.num_policies):
        num_slots[env_spec.kinds[plan.agent_of(policy)]] += plan.slot_policy.count(policy)
    pairs = zip(layouts, num_slots, strict=True)
    num_bytes = sum(replace(layout, num_slots=num).num_bytes for layout, num in pairs)
    if _fits(num_bytes):
        return []
    return [
        f"{plan.num_slots:,} trajectories of {plan.rollout:,} steps take {num_bytes >> 30:,} GiB, more than "
        "the machine has: use a smaller --rollout, --batch_size, --num_batches_to_accumulate, "
        "--num_envs_per_worker or --num_workers"
    ]


def find_excess_of_weights(
    config: Config,
    seen: Mapping[str, gymnasium.Space[Any]],
    action_space: gymnasium.Space[Any],
    *,
    num_policies: int,
    num_copies: int,
) -> list[str]:
    """Find networks that the machine's memory cannot hold.

    Args:
        config: of the run.
        seen: spaces of what a policy sees, by key, without an action mask; images are large enough.
        action_space: of one agent.
        num_policies: that are in memory.
        num_copies: of the weights of each.
    """
    num = num_weights(config.model, seen, action_space, registered_parts(config))
    num_bytes = _BYTES_PER_WEIGHT * num * num_policies * num_copies
    if _fits(num_bytes):
        return []
    copies, fewer = "", ""
    if num_copies > 1:
        copies = (
            f", {num_copies} times in memory (for training, inference and what goes between them) for each of "
            f"--num_policies={num_policies},"
        )
        of_inference = "num_workers" if config.sampling.inference == "worker" else "policy_workers_per_policy"
        fewer = f", or fewer --{of_inference} or --num_policies"
    return [
        f"{num:,} weights of a network{copies} take {num_bytes >> 30:,} GiB, more than the machine has: use a smaller "
        "--rnn_size, --rnn_num_layers, --encoder_mlp_layers, --encoder_conv_mlp_layers or --decoder_mlp_layers" + fewer
    ]


def num_copies_in_training(config: Config, *, on_cpu: bool) -> int:
    """Return how often the weights of each policy of a run are in the machine's memory.

    Args:
        config: of the run.
        on_cpu: whether networks stay there; else they are only made there.
    """
    if not on_cpu:
        return _PUBLISHED + 1
    sampling = config.sampling
    num_inference = sampling.num_workers if sampling.inference == "worker" else sampling.policy_workers_per_policy
    return _PUBLISHED + _LEARNER + num_inference + bool(config.evaluation.eval_every_steps)


def _fits(num_bytes: int) -> bool:
    return num_bytes <= memory_gib() * 2**30
