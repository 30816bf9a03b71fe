"""What a network of a policy is to those who train it, draw actions with it and save it, whoever has written it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.config import ObservationOptions
from sample_profiler.model.distributions import ActionDistribution
from sample_profiler.model.normalization import ObservationNormalizer, RunningMeanStd
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.spaces import ACTION_MASK_KEY, split_action_mask

__all__ = ["PolicyNetwork", "join", "num_parameters", "split"]


class PolicyNetwork(nn.Module, ABC):
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

    state_size: int

    def __init__(
        self, observations: ObservationOptions, observation_space: spaces.Dict, action_space: gymnasium.Space[Any]
    ) -> None:
        """Make the statistics.

        Args:
            observations: How observations are normalized.
            observation_space: Of one agent, by key, none of them nested.
            action_space: Of one agent: what `action_parts` knows.

        Raises:
            ConfigError: The options do not fit the spaces.
        """
        super().__init__()
        self._seen, self._mask_size = split_action_mask(observation_space, action_space)
        self._is_masked = self._mask_size > 0
        self.observation_normalizer = ObservationNormalizer(self._seen, observations)
        self.returns_normalizer = RunningMeanStd()
        self._image_keys: Collection[str] = ()  # of what nothing but convolutions of ours gets to see

    @abstractmethod
    def forward_head(self, normalized: Mapping[str, Tensor]) -> Tensor:
        """Encode observations from :meth:`normalize`, ``[N, E]``."""

    @abstractmethod
    def forward_core(self, head: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Go one step through the core.

        Args:
            head: ``[N, E]``.
            states: ``[N, H]``.

        Returns:
            Output ``[N, C]`` and next states ``[N, H]``.
        """

    @abstractmethod
    def forward_core_sequence(self, head: Tensor, states: Tensor, starts_episode: Tensor) -> Tensor:
        """Go T steps through the core, as T calls of :meth:`forward_core` would.

        Args:
            head: ``[S, T, E]``.
            states: ``[S, H]``, before the first step.
            starts_episode: ``[S, T]`` bool, True where a step is the first of an episode: it is entered with zeros.

        Returns:
            ``[S, T, C]``.
        """

    @abstractmethod
    def forward_tail(self, core: Tensor) -> tuple[Tensor, Tensor]:
        """Turn the core's output ``[N, C]`` into parameters of distributions ``[N, P]`` and values ``[N]``, float32.

        Values are in units of normalized returns if the learner normalizes returns.
        """

    @abstractmethod
    def action_distribution(self, parameters: Tensor) -> ActionDistribution:
        """Make the distributions that parameters ``[N, P]`` from :meth:`forward_tail` describe."""

    @abstractmethod
    def describe(self) -> str:
        """Return, for people, how many parameters there are, and in which parts."""

    def summaries(self) -> dict[str, float]:
        """Return figures of its own by name, to be charted with those of the Learner; none, unless it is the user's."""
        return {}

    def forward_at_once(
        self,
        observations: Mapping[str, Tensor],  # noqa: ARG002 - for those that do
    ) -> tuple[Tensor, Tensor] | None:
        """Return what :meth:`forward_tail` would, to learn from, if the network goes all the way in one pass.

        Args:
            observations: By key, ``[N, ...]``, as the environment gave them.
        """
        return None

    @property
    def can_be_graphed(self) -> bool:
        """Whether each step of inference computes the same, where it did the time before: not decided by the host."""
        return False

    def pack(self) -> None:
        """Prepare the weights for inference; after each change of them again."""

    def prepare_sequences(self, most: int) -> None:
        """Get ready for :meth:`forward_core_sequence` with up to so many fragments of episodes."""

    def cast(self, dtype: torch.dtype) -> None:
        """Let what can be computed in fewer bits have its weights in them; outputs stay what they are."""

    @property
    def num_multiplications(self) -> int | None:
        """Of one step forwards; None: not known."""
        return None

    @property
    def num_parameters(self) -> int:
        """Numbers that training changes."""
        return num_parameters(self)

    @profile_range("ActorCritic.normalize")
    def normalize(
        self, observations: Mapping[str, Tensor], memory: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Prepare observations for the network.

        Args:
            observations: By key, ``[N, ...]``, as the environment gave them.
            memory: Pixels that are there, by key, are overwritten; those of this call are there then.

        Returns:
            New tensors by key but for `memory`, float32; an action mask as it was. Images for convolutions of ours may
            be channels last and in the type of autocast.
        """
        normalized = self.observation_normalizer.forward(observations, self._image_keys, memory)
        if self._is_masked:
            normalized[ACTION_MASK_KEY] = observations[ACTION_MASK_KEY]
        return normalized

    def update_normalizer(self, observations: Mapping[str, Tensor]) -> None:
        """Take observations, ``[N, ...]`` by key, into the running statistics. Only the learner calls this."""
        self.observation_normalizer.update(observations)

    def forward(self, normalized: Mapping[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Go one step.

        Args:
            normalized: Observations from :meth:`normalize`.
            states: ``[N, H]``, recurrent states, zero at the start of an episode.

        Returns:
            Parameters of the distributions of actions ``[N, P]``, values ``[N]``, next states ``[N, H]``.
        """
        core, new_states = self.forward_core(self.forward_head(normalized), states)
        parameters, values = self.forward_tail(core)
        return parameters, values, new_states


def num_parameters(module: nn.Module) -> int:
    """Count the numbers that training changes."""
    return sum(parameter.numel() for parameter in module.parameters())


def join(parts: list[Tensor]) -> Tensor:
    """Put what travels side by side from head to tail into one tensor."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def split(joined: Tensor, sizes: list[int]) -> list[Tensor]:
    """Undo `join`, by the widths of what was put together."""
    return [joined] if len(sizes) == 1 else list(torch.split(joined, sizes, dim=-1))
