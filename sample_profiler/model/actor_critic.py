"""Owns the network of a policy: what it does (actor) and how well it expects to fare (critic)."""

from __future__ import annotations

from collections.abc import Mapping
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
from sample_profiler.model.layers import initialize_weights, make_mlp
from sample_profiler.model.normalization import ObservationNormalizer, RunningMeanStd
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.spaces import ACTION_MASK_KEY, action_parts

__all__ = ["ACTION_MASK_KEY", "ActorCritic", "make_actor_critic"]


class _Trunk(nn.Module):
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
        """Makes the layers; :func:`make_actor_critic` initializes them.

        Args:
            model: Layers and their initialization.
            observations: How observations are normalized.
            observation_space: Of one agent: Box and Discrete spaces by key.
            action_space: Of one agent: Discrete, MultiDiscrete, Box, or a Tuple of them.

        Raises:
            ConfigError: The options do not fit the spaces.
        """
        super().__init__()
        mask_size = _mask_size(observation_space, action_space)
        encoded = {key: space for key, space in observation_space.items() if not mask_size or key != ACTION_MASK_KEY}
        num_trunks = 1 if model.actor_critic_share_weights else 2
        # A tuple beside the module list: torch's lists are slow to go through, and know nothing of types.
        self._trunks = tuple(_Trunk(encoded, model) for _ in range(num_trunks))
        self.trunks = nn.ModuleList(self._trunks)
        actor, critic = self._trunks[0], self._trunks[-1]
        self.action_head = make_action_head(action_space, actor.output_size, model)
        self.value_head = nn.Linear(critic.output_size, 1)
        self.observation_normalizer = ObservationNormalizer(encoded, observations)
        self.returns_normalizer = RunningMeanStd()
        self._is_masked = mask_size > 0
        # The widths of what travels side by side from head to tail.
        mask_sizes = [mask_size] if mask_size else []
        self._head_sizes = [trunk.encoder.output_size for trunk in self._trunks] + mask_sizes
        self._core_sizes = [trunk.core.output_size for trunk in self._trunks] + mask_sizes
        self._state_sizes = [trunk.core.state_size for trunk in self._trunks]
        self.state_size = sum(self._state_sizes)

    @profile_range("ActorCritic.normalize")
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

    @profile_range("ActorCritic.forward_head")
    def forward_head(self, normalized: Mapping[str, Tensor]) -> Tensor:
        """Encodes observations from :meth:`normalize`, ``[N, E]``."""
        parts: list[Tensor] = [trunk.encoder(normalized) for trunk in self._trunks]
        if self._is_masked:
            parts.append(normalized[ACTION_MASK_KEY].to(parts[0].dtype))
        return _join(parts)

    @profile_range("ActorCritic.forward_core")
    def forward_core(self, head: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Goes one step through the core.

        Args:
            head: ``[N, E]``.
            states: ``[N, H]``.

        Returns:
            Output ``[N, C]`` and next states ``[N, H]``.
        """
        outputs = list(torch.split(head, self._head_sizes, dim=-1))
        new_states = list(torch.split(states, self._state_sizes, dim=-1))
        for index, trunk in enumerate(self._trunks):
            # States are kept in float32, whatever the network computes in.
            state = new_states[index].to(outputs[index].dtype)
            outputs[index], new_states[index] = trunk.core.step(outputs[index], state)
        return _join(outputs), _join(new_states).float()

    @profile_range("ActorCritic.forward_core_sequence")
    def forward_core_sequence(self, head: Tensor, states: Tensor, starts_episode: Tensor) -> Tensor:
        """Goes T steps through the core, as T calls of :meth:`forward_core` would.

        Args:
            head: ``[S, T, E]``.
            states: ``[S, H]``, before the first step.
            starts_episode: ``[S, T]`` bool, True where a step is the first of an episode: it is entered with zeros.

        Returns:
            ``[S, T, C]``.
        """
        outputs = list(torch.split(head, self._head_sizes, dim=-1))
        first_states = torch.split(states, self._state_sizes, dim=-1)
        for index, trunk in enumerate(self._trunks):
            state = first_states[index].to(outputs[index].dtype)
            outputs[index] = trunk.core.sequence(outputs[index], state, starts_episode)
        return _join(outputs)

    @profile_range("ActorCritic.forward_tail")
    def forward_tail(self, core: Tensor) -> tuple[Tensor, Tensor]:
        """Turns the core's output ``[N, C]`` into parameters of distributions ``[N, P]`` and values ``[N]``, float32.

        Values are in units of normalized returns if the learner normalizes returns.
        """
        parts = torch.split(core, self._core_sizes, dim=-1)
        decoded: list[Tensor] = [trunk.decoder(part) for trunk, part in zip(self._trunks, parts, strict=False)]
        mask = parts[-1] if self._is_masked else None
        if decoded[0].dtype == torch.float32:
            return self._apply_heads(decoded, mask)
        with torch.autocast(core.device.type, enabled=False):
            return self._apply_heads([part.float() for part in decoded], mask)

    def _apply_heads(self, decoded: list[Tensor], mask: Tensor | None) -> tuple[Tensor, Tensor]:
        parameters: Tensor = self.action_head(decoded[0], mask)
        values: Tensor = self.value_head(decoded[-1])
        return parameters, values.squeeze(-1)

    def action_distribution(self, parameters: Tensor) -> ActionDistribution:
        """Makes the distributions that parameters ``[N, P]`` from :meth:`forward_tail` describe."""
        return self.action_head.distribution(parameters)


def make_actor_critic(
    model: ModelOptions,
    observations: ObservationOptions,
    observation_space: spaces.Dict,
    action_space: gymnasium.Space[Any],
) -> ActorCritic:
    """Makes the network that the options ask for; its weights are drawn from torch's global generator.

    Args:
        model: Layers and their initialization.
        observations: How observations are normalized.
        observation_space: Of one agent: Box and Discrete spaces by key.
        action_space: Of one agent: Discrete, MultiDiscrete, Box, or a Tuple of them.

    Raises:
        ConfigError: The options do not fit the spaces.
    """
    network = ActorCritic(model, observations, observation_space, action_space)
    initialize_weights(network, model)
    network.action_head.initialize()
    return network


def _mask_size(observation_space: spaces.Dict, action_space: gymnasium.Space[Any]) -> int:
    """Returns the width of the action mask among the observations, 0 if there is none."""
    mask_space = observation_space.spaces.get(ACTION_MASK_KEY)
    if mask_space is None:
        return 0
    size = sum(int(part.n) for part in action_parts(action_space) if isinstance(part, spaces.Discrete))
    if not size or mask_space.shape != (size,):
        raise ConfigError(
            [
                f"the observation {ACTION_MASK_KEY!r} is {mask_space} and the action space {action_space}; a mask has "
                f"one number for each value of each discrete part of an action, {size} in all: give the observation "
                "another name if it is no mask"
            ]
        )
    if len(observation_space) == 1:
        raise ConfigError([f"there is no observation beside {ACTION_MASK_KEY!r}; a policy needs something to see"])
    return size


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
