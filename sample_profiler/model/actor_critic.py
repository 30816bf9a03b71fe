"""Owns the network of a policy: what it does (actor) and how well it expects to fare (critic)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model.action_heads import make_action_head
from sample_profiler.model.cores import Core, make_core
from sample_profiler.model.distributions import ActionDistribution
from sample_profiler.model.encoders import ObservationEncoder
from sample_profiler.model.fragments import EpisodeFragments
from sample_profiler.model.layers import initialize_weights, make_mlp
from sample_profiler.model.normalization import ObservationNormalizer, RunningMeanStd

__all__ = ["ACTION_MASK_KEY", "ActorCritic", "make_actor_critic"]

ACTION_MASK_KEY = "action_mask"
"""Key of the observation that is 0 for each discrete action that is not allowed in this step."""


class Trunk(nn.Module):
    """Encoder, core and decoder: what actor and critic share, or have one each of."""

    def __init__(self, observation_spaces: Mapping[str, gymnasium.Space[Any]], options: ModelOptions) -> None:
        super().__init__()
        self.encoder = ObservationEncoder(observation_spaces, options)
        self.core: Core = make_core(self.encoder.output_size, options)
        self.decoder = make_mlp(self.core.output_size, options.decoder_mlp_layers, options.nonlinearity)
        self.output_size = options.decoder_mlp_layers[-1] if options.decoder_mlp_layers else self.core.output_size


class ActorCritic(nn.Module):
    """Network of a policy, from observations to parameters of a distribution of actions, and values.

    A step goes ``normalize``, ``forward_head``, ``forward_core`` (or ``forward_core_sequence`` over whole sequences),
    ``forward_tail``, ``action_distribution``. The network keeps nothing between calls; its parameters and statistics
    are tensors of the state dict.

    If the observations have an ``action_mask``, it travels behind the encoding through head and core to the tail, so
    that the learner cannot fail to apply the mask that inference applied.

    Attributes:
        state_size: Width of one agent's recurrent state, H.
        returns_normalizer: Statistics of returns; the learner uses them if values are trained on normalized returns.
    """

    def __init__(
        self,
        model: ModelOptions,
        observations: ObservationOptions,
        observation_space: spaces.Dict,
        action_space: gymnasium.Space[Any],
    ) -> None:
        """Makes the network with weights drawn from torch's global generator.

        Args:
            model: Layers and their initialization.
            observations: How observations are normalized.
            observation_space: Of one agent: Box and Discrete spaces by key.
            action_space: Of one agent: Discrete or Box.

        Raises:
            ConfigError: The options do not fit the spaces.
        """
        super().__init__()
        mask_size, encoded_spaces = _split_off_mask(observation_space, action_space)
        self._is_masked = mask_size > 0
        self.observation_normalizer = ObservationNormalizer(encoded_spaces, observations)
        self.returns_normalizer = RunningMeanStd()
        num_trunks = 1 if model.actor_critic_share_weights else 2
        trunks = [Trunk(encoded_spaces, model) for _ in range(num_trunks)]
        self.trunks = nn.ModuleList(trunks)
        self.action_head = make_action_head(action_space, trunks[0].output_size, model, is_masked=self._is_masked)
        self.value_head = nn.Linear(trunks[-1].output_size, 1)
        self.state_size = sum(trunk.core.state_size for trunk in trunks)
        mask_part = [mask_size] if self._is_masked else []
        self._head_sizes = [trunk.encoder.output_size for trunk in trunks] + mask_part
        self._core_sizes = [trunk.core.output_size for trunk in trunks] + mask_part
        self._state_sizes = [trunk.core.state_size for trunk in trunks]
        initialize_weights(self, model)
        self.action_head.initialize()

    def normalize(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Prepares observations for the network.

        Args:
            observations: By key, ``[N, ...]``, as the environment gave them.

        Returns:
            New tensors by key, float32; an action mask as it was.
        """
        normalized = self.observation_normalizer(observations)
        if self._is_masked:
            normalized[ACTION_MASK_KEY] = observations[ACTION_MASK_KEY]
        return cast("dict[str, Tensor]", normalized)

    def update_normalizer(self, observations: Mapping[str, Tensor]) -> None:
        """Takes observations, ``[N, ...]`` by key, into the running statistics. Only the learner calls this."""
        self.observation_normalizer.update(observations)

    def forward(self, normalized: Mapping[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Goes one step.

        Args:
            normalized: Observations from :meth:`normalize`.
            states: ``[N, H]``, recurrent states, zero at the start of an episode.

        Returns:
            Parameters of the distributions of actions ``[N, P]``, values ``[N]``, next states ``[N, H]``.
        """
        core, new_states = self.forward_core(self.forward_head(normalized), states)
        parameters, values = self.forward_tail(core)
        return parameters, values, new_states

    def forward_head(self, normalized: Mapping[str, Tensor]) -> Tensor:
        """Encodes observations from :meth:`normalize`, ``[N, E]``."""
        parts = [trunk.encoder(normalized) for trunk in self._each_trunk()]
        if self._is_masked:
            parts.append(normalized[ACTION_MASK_KEY].to(parts[0].dtype))
        return _join(parts)

    def forward_core(self, head: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Goes one step through the core.

        Args:
            head: ``[N, E]``.
            states: ``[N, H]``.

        Returns:
            Output ``[N, C]`` and next states ``[N, H]``.
        """
        cores = [trunk.core for trunk in self._each_trunk()]
        heads = head.split(self._head_sizes, dim=-1)
        stepped = [core.step(*both) for core, *both in zip(cores, heads, states.split(self._state_sizes, dim=1))]
        return _join([output for output, _ in stepped] + list(heads[len(cores) :])), _join([s for _, s in stepped])

    def forward_core_sequence(self, head: Tensor, states: Tensor, starts_episode: Tensor) -> Tensor:
        """Goes T steps through the core, as T calls of :meth:`forward_core` would.

        Args:
            head: ``[S, T, E]``.
            states: ``[S, H]``, before the first step.
            starts_episode: ``[S, T]`` bool, True where a step is the first of an episode: it is entered with zeros.

        Returns:
            ``[S, T, C]``.
        """
        cores = [trunk.core for trunk in self._each_trunk()]
        fragments = EpisodeFragments.from_starts(starts_episode)
        heads = head.split(self._head_sizes, dim=-1)
        all_states = states.split(self._state_sizes, dim=1)
        outputs = [core.sequence(*both, fragments) for core, *both in zip(cores, heads, all_states)]
        return _join(outputs + list(heads[len(cores) :]))

    def forward_tail(self, core: Tensor) -> tuple[Tensor, Tensor]:
        """Turns the core's output ``[N, C]`` into parameters of distributions ``[N, P]`` and values ``[N]``, float32.

        Values are in units of normalized returns if the learner normalizes returns.
        """
        trunks = self._each_trunk()
        parts = core.split(self._core_sizes, dim=-1)
        decoded = [trunk.decoder(part) for trunk, part in zip(trunks, parts)]
        parameters: Tensor = self.action_head(decoded[0], parts[-1] if self._is_masked else None)
        values: Tensor = self.value_head(decoded[-1])
        return parameters, values.squeeze(-1).float()

    def action_distribution(self, parameters: Tensor) -> ActionDistribution:
        """Makes the distributions that parameters ``[N, P]`` from :meth:`forward_tail` describe."""
        return self.action_head.distribution(parameters)

    def _each_trunk(self) -> list[Trunk]:
        return cast("list[Trunk]", list(self.trunks))


def make_actor_critic(
    model: ModelOptions,
    observations: ObservationOptions,
    observation_space: spaces.Dict,
    action_space: gymnasium.Space[Any],
) -> ActorCritic:
    """Makes the network that the options ask for, with weights drawn from torch's global generator.

    Args:
        model: Layers and their initialization.
        observations: How observations are normalized.
        observation_space: Of one agent: Box and Discrete spaces by key.
        action_space: Of one agent: Discrete or Box.

    Raises:
        ConfigError: The options do not fit the spaces.
    """
    return ActorCritic(model, observations, observation_space, action_space)
