"""Owns whole networks written for Sample Factory, by the protocol of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.compat.networks.actor_critics import ActorCritic
from sample_profiler.compat.networks.cores import run_sequences
from sample_profiler.compat.networks.distributions import Distribution
from sample_profiler.compat.networks.factory import get_rnn_size
from sample_profiler.compat.networks.inputs import ExpectedInputs
from sample_profiler.errors import ModelError

__all__ = ["AdaptedActorCritic"]


class AdaptedActorCritic(nn.Module):
    """Such a network, as `register_actor_critic` wants one.

    Attributes:
        actor_critic: The network: `forward_head(observations)`, `forward_core(head, states)` as a core has it, and
            `forward_tail(core, values_only=…, sample_actions=…)`, which returns `action_logits` and `values` by name.
        state_size: Width of one agent's state.
    """

    def __init__(self, actor_critic: Any, cfg: Any, observation_space: spaces.Dict) -> None:
        """Adapt a network.

        Args:
            actor_critic: The network.
            cfg: Options of the run.
            observation_space: Of one agent, without an action mask.

        Raises:
            ModelError: It is none, or does what would silently be left out here.
        """
        super().__init__()
        if not isinstance(actor_critic, nn.Module):
            raise ModelError(f"the registered actor-critic is {actor_critic!r:.200}; it is a torch.nn.Module")
        own = getattr(type(actor_critic), "normalize_obs", ActorCritic.normalize_obs)
        if own is not ActorCritic.normalize_obs:
            raise ModelError(
                f"{type(actor_critic).__name__}.normalize_obs would not be called: observations are normalized before "
                "they come to a network; set --normalize_input=False and do it in forward_head"
            )
        self.actor_critic: Any = actor_critic
        self.state_size = get_rnn_size(cfg)
        self._has_memory = bool(cfg.use_rnn)
        self._expected = ExpectedInputs.of(actor_critic, observation_space)

    def forward_head(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Encode observations, `[N, E]`."""
        head: Tensor = self.actor_critic.forward_head(self._expected.prepare(observations))
        return head

    def forward_core(self, head: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Go one step with N agents; without a recurrent core their states stay as they are."""
        output, new_states = self.actor_critic.forward_core(head, states)
        return output, new_states if self._has_memory else states

    def forward_core_sequence(self, head: Tensor, states: Tensor, starts_episode: Tensor) -> Tensor:
        """Go T steps with S agents, `[S, T, E]` to `[S, T, C]`, as :meth:`forward_core` would one by one."""
        core = self.actor_critic.forward_core
        if self._has_memory:
            name = f"actor-critic's {type(self.actor_critic).__name__}.forward_core"
            return run_sequences(core, head, states, starts_episode, name)
        steps = head.flatten(0, 1)
        output: Tensor = core(steps, states.new_zeros(len(steps), self.state_size))[0]
        return output.view(*head.shape[:2], -1)

    def forward_tail(self, core: Tensor) -> tuple[Tensor, Tensor]:
        """Return parameters of distributions `[N, P]` and values `[N]`.

        Raises:
            ModelError: Actions would be drawn from something else than the parameters describe.
        """
        result = self.actor_critic.forward_tail(core, values_only=False, sample_actions=False)
        self._check_distribution()
        return result["action_logits"], result["values"].reshape(len(core))

    def summaries(self) -> Mapping[str, Any]:
        """Return figures of its own, by name."""
        summaries = getattr(self.actor_critic, "summaries", None)
        return {} if summaries is None else summaries()

    def _check_distribution(self) -> None:
        distribution = getattr(self.actor_critic, "last_action_distribution", None)
        if distribution is None:
            return
        if type(distribution) is not Distribution:
            raise ModelError(
                f"{type(self.actor_critic).__name__} draws actions from a {type(distribution).__name__}: here they are "
                "drawn from what get_action_distribution(action_space, action_logits) returns"
            )
        self.actor_critic.last_action_distribution = None  # it has tensors of a graph, which cannot be copied
