"""Owns a whole network of the user's own, as the rest of the package sees it, and the checks of what users make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.config import ObservationOptions
from sample_profiler.errors import FROM_OUTSIDE, ModelError, SampleProfilerError, describe_error, is_out_of_memory
from sample_profiler.model.distributions import (
    MASKED_LOGIT,
    ActionDistribution,
    Categorical,
    DiagonalGaussian,
    IndependentParts,
)
from sample_profiler.model.policy_network import PolicyNetwork, join, num_parameters, split
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.spaces import ACTION_MASK_KEY, action_parts, num_action_parameters, part_width, value_range

__all__ = ["OwnActorCritic", "made", "some_observations"]


class OwnActorCritic(PolicyNetwork):
    """Adds to a network of the user's own what it need not know of: normalization, distributions and masks.

    A mask travels behind the encoding from head to tail, where it takes the place of logits.
    """

    def __init__(
        self,
        make: Callable[..., nn.Module],
        observations: ObservationOptions,
        observation_space: spaces.Dict,
        action_space: gymnasium.Space[Any],
    ) -> None:
        """Make it, and send two steps through it.

        Args:
            make: Called with the spaces of what is seen and of actions; see `register_actor_critic`.
            observations: How observations are normalized.
            observation_space: Of one agent, by key, none of them nested.
            action_space: Of one agent.

        Raises:
            ConfigError: The options do not fit the spaces.
            ModelError: It is not what it has to be.
        """
        super().__init__(observations, observation_space, action_space)
        parts = action_parts(action_space)
        self._are_discrete = [isinstance(part, spaces.Discrete) for part in parts]
        self._sizes = [int(part.n) if isinstance(part, spaces.Discrete) else 2 * part_width(part) for part in parts]
        are_logits = np.repeat(self._are_discrete, self._sizes)
        self.register_buffer("_logits", torch.from_numpy(np.flatnonzero(are_logits)), persistent=False)
        self.own: Any = made("actor-critic", make, spaces.Dict(self._seen), action_space)
        if not isinstance(self.own, nn.Module):
            raise ModelError(f"the registered actor-critic is {self.own!r:.200}; it is a torch.nn.Module")
        self.state_size = getattr(self.own, "state_size", 1)
        self._remembers = hasattr(self.own, "forward_core")
        self._check(some_observations(observation_space, 2), num_action_parameters(action_space))

    def describe(self) -> str:
        """Return, for people, how many parameters there are."""
        return f"{num_parameters(self):,} parameters (actor-critic of one's own)"

    @profile_range("ActorCritic.forward_head")
    def forward_head(self, normalized: Mapping[str, Tensor]) -> Tensor:
        """Encode observations, ``[N, E]``."""
        if not self._is_masked:
            head: Tensor = self.own.forward_head(dict(normalized))
            return head
        seen = {key: value for key, value in normalized.items() if key != ACTION_MASK_KEY}
        own = self.own.forward_head(seen)
        return join([own, normalized[ACTION_MASK_KEY].to(own.dtype)])

    @profile_range("ActorCritic.forward_core")
    def forward_core(self, head: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Go one step through the core, if there is one."""
        if not self._remembers:
            return head, states
        own, *mask = self._split(head)
        output, new_states = self.own.forward_core(own, states.to(own.dtype))
        return join([output, *mask]), new_states.float()

    @profile_range("ActorCritic.forward_core_sequence")
    def forward_core_sequence(self, head: Tensor, states: Tensor, starts_episode: Tensor) -> Tensor:
        """Go T steps through the core, if there is one."""
        if not self._remembers:
            return head
        own, *mask = self._split(head)
        output = self.own.forward_core_sequence(own, states.to(own.dtype), starts_episode)
        return join([output, *mask])

    @profile_range("ActorCritic.forward_tail")
    def forward_tail(self, core: Tensor) -> tuple[Tensor, Tensor]:
        """Return parameters of distributions, those of forbidden values replaced, and values."""
        own, *mask = self._split(core)
        parameters, values = self.own.forward_tail(own)
        parameters, values = parameters.float(), values.float()
        if mask:
            logits: Any = self._logits
            allowed = torch.ones_like(parameters).index_copy_(-1, logits, mask[0].to(parameters.dtype))
            parameters = parameters.masked_fill(allowed == 0, MASKED_LOGIT)
        return parameters, values

    @torch.no_grad()
    def summaries(self) -> dict[str, float]:
        """Return the figures that the user's network has, if it has a method for them.

        Raises:
            ModelError: It raised, or they are no numbers by name.
        """
        summaries = getattr(self.own, "summaries", None)
        if summaries is None:
            return {}
        try:
            return {str(name): float(value) for name, value in summaries().items()}
        except Exception as error:
            raise ModelError(
                f"summaries() of the registered actor-critic: {describe_error(error)}; it returns numbers by name"
            ) from error

    def action_distribution(self, parameters: Tensor) -> ActionDistribution:
        """Make the distributions of all parts of an action."""
        parts = [
            Categorical(piece) if is_discrete else DiagonalGaussian(piece)
            for piece, is_discrete in zip(split(parameters, self._sizes), self._are_discrete, strict=True)
        ]
        return parts[0] if len(parts) == 1 else IndependentParts(parts)

    def _split(self, joined: Tensor) -> list[Tensor]:
        """Return what is the user's, and the mask if there is one."""
        if not self._is_masked:
            return [joined]
        return split(joined, [joined.shape[-1] - self._mask_size, self._mask_size])

    @torch.no_grad()
    def _check(self, observations: dict[str, Tensor], num_action_parameters: int) -> None:
        was_training = self.training
        self.eval()  # what follows is made up: statistics of the user's own layers do not count it
        try:
            states, starts = torch.zeros(2, self.state_size), torch.tensor([[True, False, True]] * 2)
            head = self.forward_head(self.normalize(observations))
            core, new_states = self.forward_core(head, states)
            parameters, values = self.forward_tail(core)
            sequence = self.forward_core_sequence(head.unsqueeze(1).expand(-1, 3, -1), states, starts)
        except Exception as error:
            raise ModelError(
                f"the registered actor-critic fails with two observations: {describe_error(error)}; it has "
                "forward_head(observations) and forward_tail(core), and with a memory forward_core(head, states) and "
                "forward_core_sequence(head, states, starts_episode)"
            ) from error
        self.train(was_training)
        found = {
            "forward_tail() parameters": (parameters, (2, num_action_parameters)),
            "forward_tail() values": (values, (2,)),
            "forward_core() states": (new_states, tuple(states.shape)),
            "forward_core_sequence()": (sequence, (2, 3, core.shape[-1])),
        }
        for what, (tensor, shape) in found.items():
            given = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
            if given != shape:
                raise ModelError(
                    f"the registered actor-critic: {what} are of shape {given}; with two observations they are {shape}"
                )


def made(name: str, make: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of the user's own makes.

    Args:
        name: Of what it makes, for errors.
        make: The function.
        arguments: Of the call.

    Raises:
        ModelError: It raised something else than an error of this package, or of a lack of memory.
    """
    try:
        return make(*arguments)
    except (SampleProfilerError, *FROM_OUTSIDE):
        raise
    except BaseException as error:
        if is_out_of_memory(error):
            raise
        raise ModelError(f"the registered {name} raised in its constructor: {describe_error(error)}") from error


def some_observations(observation_space: spaces.Dict, num_rows: int) -> dict[str, Tensor]:
    """Return observations to try a network with, ``[num_rows, ...]`` by key."""
    return {
        key: torch.from_numpy(np.full((num_rows, *(space.shape or ())), _some_value(space), space.dtype))
        for key, space in observation_space.items()
    }


def _some_value(space: gymnasium.Space[Any]) -> Any:
    """Return numbers that an observation may have; a Box may have any, whatever its bounds."""
    bounds = value_range(space)
    return 0 if bounds is None else bounds[0]
