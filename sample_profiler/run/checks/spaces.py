"""Owns what is found out about an environment's spaces before a run begins: whether they fit the flags and the network.

Imports no PyTorch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import gymnasium

from sample_profiler.config import Config, is_surely_on_cpu
from sample_profiler.envs import EnvSpec
from sample_profiler.errors import ConfigError
from sample_profiler.model.convolutions import (
    convolutions_of,
    find_problem_of_image,
    fitted_images,
    flattened_images,
    least_side,
)
from sample_profiler.model.registry import registered_parts
from sample_profiler.run.checks.memory_needs import (
    find_excess_of_trajectories,
    find_excess_of_weights,
    num_copies_in_training,
)
from sample_profiler.spaces import is_discrete, normalized_keys, split_action_mask
from sample_profiler.storage.sampling_plan import make_sampling_plan

__all__ = ["check_spaces", "find_problems_of_network", "log_images"]

logger = logging.getLogger(__name__)


def check_spaces(config: Config, env_spec: EnvSpec, *, has_remote_worker: bool = False) -> None:
    """Find what in the configuration does not fit the environment, before anything is made or overwritten.

    Args:
        config: of the run.
        env_spec: of its environment.
        has_remote_worker: whether trajectories of other machines come, too, by way of a RemoteSampler.

    Raises:
        ConfigError: with all problems.
    """
    problems: list[str] = []
    try:
        plan = make_sampling_plan(
            config.sampling, env_spec.num_agents, kinds=env_spec.kinds, has_remote_worker=has_remote_worker
        )
    except ConfigError as error:
        problems += error.problems
    else:
        problems += find_excess_of_trajectories(config, env_spec, plan)
    num_copies = num_copies_in_training(config, on_cpu=is_surely_on_cpu(config.run.device))
    num_copies += has_remote_worker  # what the RemoteSampler sends to other machines
    specs = env_spec.of_kinds()
    for spec in specs:
        problems += find_problems_of_network(config, spec, -(-config.sampling.num_policies // len(specs)), num_copies)
        if config.loss.exploration_loss == "symmetric_kl" and not is_discrete(spec.action_space):
            problems.append(
                f"--exploration_loss=symmetric_kl: it is for discrete actions, and those of {config.run.env} are "
                f"{spec.action_space}: use --exploration_loss=entropy"
            )
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def find_problems_of_network(config: Config, env_spec: EnvSpec, num_policies: int, num_copies: int) -> list[str]:
    """Find what the network could not make of the observations, and whether it is too large.

    Args:
        config: of the run.
        env_spec: of its environment.
        num_policies: that are in memory.
        num_copies: of the weights of each.
    """
    try:
        seen, _ = split_action_mask(env_spec.observation_space, env_spec.action_space)
    except ConfigError as error:
        return list(error.problems)
    problems: list[str] = []
    given = config.observations
    try:
        normalized_keys(seen, given.normalize_input_keys, given.obs_subtract_mean, given.obs_scale)
    except ConfigError as error:
        problems += error.problems
    of_images: list[str] = []
    if not _has_own_encoder(config):
        architecture = config.model.encoder_conv_architecture
        of_images = list(filter(None, (find_problem_of_image(key, space, architecture) for key, space in seen.items())))
    return problems + (
        of_images
        or find_excess_of_weights(config, seen, env_spec.action_space, num_policies=num_policies, num_copies=num_copies)
    )


def log_images(config: Config, observation_spaces: Mapping[str, gymnasium.Space[Any]]) -> None:
    """Say where the package's own encoders have others convolutions than one may think, or none."""
    if _has_own_encoder(config):
        return
    architecture = config.model.encoder_conv_architecture
    for key in flattened_images(observation_spaces, architecture):
        logger.info(
            "Observation %r of shape %s is flattened for fully connected layers: --encoder_conv_architecture=%s needs "
            "images of %dx%d pixels, or bytes",
            *(key, observation_spaces[key].shape, architecture, least_side(architecture), least_side(architecture)),
        )
    for key in fitted_images(observation_spaces, architecture):
        shape = observation_spaces[key].shape or ()
        logger.info(
            "Observation %r of shape %s is smaller than the %dx%d pixels that --encoder_conv_architecture=%s is made "
            "for: kernels (and strides) are %s",
            *(key, shape, least_side(architecture), least_side(architecture), architecture),
            ", ".join(
                "{}x{} ({}x{})".format(*each.kernel_size, *each.stride) for each in convolutions_of(architecture, shape)
            ),
        )


def _has_own_encoder(config: Config) -> bool:
    """Tell whether the user's own takes observations, which it may do as it likes."""
    parts = registered_parts(config)
    return parts.encoder is not None or parts.actor_critic is not None
