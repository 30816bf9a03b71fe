"""Owns the whole networks from which Sample Factory's code derives its own, and their last layers."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sample_profiler.compat.helpers.tensors import TensorDict
from sample_profiler.compat.networks.distributions import (
    Distribution,
    calc_num_action_parameters,
    get_action_distribution,
    is_continuous_action_space,
)
from sample_profiler.compat.networks.factory import global_model_factory
from sample_profiler.compat.networks.parts import model_device
from sample_profiler.spaces import ACTION_MASK_KEY

__all__ = [
    *("ActionParameterizationContinuousNonAdaptiveStddev", "ActionParameterizationDefault", "ActionsParameterization"),
    *("ActorCritic", "ActorCriticSeparateWeights", "ActorCriticSharedWeights", "default_make_actor_critic_func"),
    "obs_space_without_action_mask",
]

Head = Tensor | PackedSequence


class ActionsParameterization(nn.Module):
    """The last layer of an actor: from `[N, D]` to parameters of distributions `[N, P]`, and the distributions.

    Attributes:
        cfg: The run's options.
        action_space: Of one agent.
    """

    def __init__(self, cfg: Any, action_space: gymnasium.Space[Any]) -> None:
        super().__init__()
        self.cfg = cfg
        self.action_space = action_space

    def distributions_of(self, parameters: Tensor, action_mask: Any) -> tuple[Tensor, Distribution]:
        """Return parameters, and the distributions that they describe."""
        return parameters, get_action_distribution(self.action_space, parameters, action_mask)


class ActionParameterizationDefault(ActionsParameterization):
    """One linear layer for all parameters."""

    def __init__(self, cfg: Any, core_out_size: int, action_space: gymnasium.Space[Any]) -> None:
        super().__init__(cfg, action_space)
        self.distribution_linear = nn.Linear(core_out_size, calc_num_action_parameters(action_space))

    def forward(self, actor_core_output: Tensor, action_mask: Any = None) -> tuple[Tensor, Distribution]:
        """Return parameters and distributions."""
        return self.distributions_of(self.distribution_linear(actor_core_output), action_mask)


class ActionParameterizationContinuousNonAdaptiveStddev(ActionsParameterization):
    """A linear layer for the means of continuous actions, whose standard deviations are the same in all states."""

    def __init__(self, cfg: Any, core_out_size: int, action_space: gymnasium.Space[Any]) -> None:
        super().__init__(cfg, action_space)
        size = calc_num_action_parameters(action_space) // 2
        self.distribution_linear = nn.Linear(core_out_size, size)
        self.learned_stddev = nn.Parameter(torch.full((size,), math.log(cfg.initial_stddev)))

    def forward(self, actor_core_output: Tensor, action_mask: Any = None) -> tuple[Tensor, Distribution]:
        """Return parameters and distributions."""
        means = self.distribution_linear(actor_core_output)
        if scale := self.cfg.continuous_tanh_scale:
            means = torch.tanh(means / scale) * scale
        return self.distributions_of(torch.cat([means, self.learned_stddev.expand_as(means)], dim=-1), action_mask)


class _NoNormalizer(nn.Identity):
    """Stands for the statistics of observations, which are around the network."""

    def summaries(self) -> dict[str, float]:
        """Return nothing."""
        return {}


class ActorCritic(nn.Module):
    """A whole network, in three steps; those who derive from this have these.

    Observations and returns are normalized around it: it has no statistics of its own.

    Attributes:
        cfg: The run's options.
        action_space: Of one agent.
        encoders: Of observations; the first says where these have to be.
        obs_normalizer: Leaves observations as they are, and has no parameters.
        returns_normalizer: None.
        last_action_distribution: What the latest actions are drawn from.
    """

    critic_linear: nn.Module
    action_parameterization: nn.Module

    def __init__(self, obs_space: Any, action_space: gymnasium.Space[Any], cfg: Any) -> None:  # noqa: ARG002
        super().__init__()
        self.cfg = cfg
        self.action_space = action_space
        self.encoders: list[Any] = []
        self.obs_normalizer = _NoNormalizer()
        self.returns_normalizer = None
        self.last_action_distribution: Any = None

    def get_action_parameterization(self, decoder_output_size: int) -> ActionsParameterization:
        """Make the last layer of the actor."""
        has_one_stddev = not self.cfg.adaptive_stddev and is_continuous_action_space(self.action_space)
        kind = ActionParameterizationContinuousNonAdaptiveStddev if has_one_stddev else ActionParameterizationDefault
        return kind(self.cfg, decoder_output_size, self.action_space)

    def initialize_weights(self, layer: nn.Module) -> None:
        """Draw the weights of a linear or convolutional layer as `policy_initialization` says, for `self.apply`."""
        bias = getattr(layer, "bias", None)
        if isinstance(bias, nn.Parameter):
            nn.init.zeros_(bias)
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            return
        if self.cfg.policy_initialization == "orthogonal":
            nn.init.orthogonal_(layer.weight, gain=self.cfg.policy_init_gain)
        elif self.cfg.policy_initialization == "xavier_uniform":
            nn.init.xavier_uniform_(layer.weight, gain=self.cfg.policy_init_gain)

    def model_to_device(self, device: torch.device) -> None:
        """Move the network."""
        self.to(device)

    def device_for_input_tensor(self, input_tensor_name: str) -> torch.device | None:  # noqa: ARG002
        """Return where an observation has to be."""
        return model_device(self)

    def type_for_input_tensor(self, input_tensor_name: str) -> torch.dtype:
        """Return the type that an observation has to have: what the first encoder says."""
        kind: torch.dtype = (
            self.encoders[0].type_for_input_tensor(input_tensor_name) if self.encoders else torch.float32
        )
        return kind

    def normalize_obs(self, obs: Any) -> Any:
        """Return observations as they are: they have been normalized."""
        return obs

    def summaries(self) -> dict[str, float]:
        """Return figures of one's own, by name: they are charted as `train/{name}`."""
        return {}

    def action_distribution(self) -> Any:
        """Return what the latest actions are drawn from; None: there were none."""
        return self.last_action_distribution

    def _maybe_sample_actions(self, sample_actions: bool, result: TensorDict) -> None:
        """Add actions to what `forward_tail` returns, if they are asked for."""
        if sample_actions:
            actions, result["log_prob_actions"] = self.last_action_distribution.sample_actions_log_probs()
            result["actions"] = actions.squeeze(dim=1)

    def forward_head(self, normalized_obs_dict: dict[str, Tensor]) -> Tensor:
        """Encode observations, `[N, E]`."""
        raise NotImplementedError(f"{type(self).__name__} has no forward_head()")

    def forward_core(self, head_output: Head, rnn_states: Tensor) -> tuple[Head, Tensor]:
        """Go a step `[N, E]`, or sequences of such, from states `[N, H]`."""
        raise NotImplementedError(f"{type(self).__name__} has no forward_core()")

    def forward_tail(
        self, core_output: Tensor, values_only: bool, sample_actions: bool, action_mask: Tensor | None = None
    ) -> TensorDict:
        """Return `values`, and `action_logits`: parameters of distributions; actions if they are asked for."""
        raise NotImplementedError(f"{type(self).__name__} has no forward_tail()")

    def forward(
        self,
        normalized_obs_dict: dict[str, Tensor],
        rnn_states: Tensor,
        values_only: bool = False,
        action_mask: Tensor | None = None,
    ) -> TensorDict:
        """Go one step through all three."""
        core: Any
        core, new_states = self.forward_core(self.forward_head(normalized_obs_dict), rnn_states)
        masks = {} if action_mask is None else {"action_mask": action_mask}
        result = self.forward_tail(core, values_only, sample_actions=True, **masks)
        result["new_rnn_states"] = new_states
        return result

    def _outcome(
        self, actor: Tensor, critic: Tensor, values_only: bool, sample_actions: bool, action_mask: Tensor | None
    ) -> TensorDict:
        """Return what `forward_tail` does, from the outputs of the decoders of actor and critic."""
        result = TensorDict(values=self.critic_linear(critic).squeeze(-1))
        if not values_only:
            result["action_logits"], self.last_action_distribution = self.action_parameterization(actor, action_mask)
            self._maybe_sample_actions(sample_actions, result)
        return result


class ActorCriticSharedWeights(ActorCritic):
    """One encoder, core and decoder for actor and critic."""

    def __init__(self, model_factory: Any, obs_space: Any, action_space: gymnasium.Space[Any], cfg: Any) -> None:
        super().__init__(obs_space, action_space, cfg)
        self.encoder = model_factory.make_model_encoder_func(cfg, obs_space)
        self.encoders = [self.encoder]
        self.core = model_factory.make_model_core_func(cfg, self.encoder.get_out_size())
        self.decoder = model_factory.make_model_decoder_func(cfg, self.core.get_out_size())
        self.critic_linear = nn.Linear(self.decoder.get_out_size(), 1)
        self.action_parameterization = self.get_action_parameterization(self.decoder.get_out_size())
        self.apply(self.initialize_weights)

    def forward_head(self, normalized_obs_dict: dict[str, Tensor]) -> Tensor:
        """Encode observations."""
        head: Tensor = self.encoder(normalized_obs_dict)
        return head

    def forward_core(self, head_output: Head, rnn_states: Tensor) -> tuple[Head, Tensor]:
        """Go a step, or sequences."""
        output, new_states = self.core(head_output, rnn_states)
        return output, new_states

    def forward_tail(
        self, core_output: Tensor, values_only: bool, sample_actions: bool, action_mask: Tensor | None = None
    ) -> TensorDict:
        """Return values, and what actions are drawn from."""
        decoded = self.decoder(core_output)
        return self._outcome(decoded, decoded, values_only, sample_actions, action_mask)


class ActorCriticSeparateWeights(ActorCritic):
    """An encoder, core and decoder each for actor and critic, whose outputs travel side by side."""

    def __init__(self, model_factory: Any, obs_space: Any, action_space: gymnasium.Space[Any], cfg: Any) -> None:
        super().__init__(obs_space, action_space, cfg)
        self.actor_encoder = model_factory.make_model_encoder_func(cfg, obs_space)
        self.actor_core = model_factory.make_model_core_func(cfg, self.actor_encoder.get_out_size())
        self.critic_encoder = model_factory.make_model_encoder_func(cfg, obs_space)
        self.critic_core = model_factory.make_model_core_func(cfg, self.critic_encoder.get_out_size())
        self.actor_decoder = model_factory.make_model_decoder_func(cfg, self.actor_core.get_out_size())
        self.critic_decoder = model_factory.make_model_decoder_func(cfg, self.critic_core.get_out_size())
        self.encoders = [self.actor_encoder, self.critic_encoder]
        self.cores = [self.actor_core, self.critic_core]
        self.decoders = [self.actor_decoder, self.critic_decoder]
        self.critic_linear = nn.Linear(self.critic_decoder.get_out_size(), 1)
        self.action_parameterization = self.get_action_parameterization(self.actor_decoder.get_out_size())
        self.core_func = self._core_rnn if cfg.use_rnn else self._core_empty
        self.apply(self.initialize_weights)

    def forward_head(self, normalized_obs_dict: dict[str, Tensor]) -> Tensor:
        """Encode observations twice."""
        return torch.cat([encoder(normalized_obs_dict) for encoder in self.encoders], dim=-1)

    def forward_core(self, head_output: Head, rnn_states: Tensor) -> tuple[Head, Tensor]:
        """Go a step, or sequences, through both cores."""
        output: tuple[Head, Tensor] = self.core_func(head_output, rnn_states)
        return output

    def _core_empty(self, head_output: Head, fake_rnn_states: Tensor) -> tuple[Head, Tensor]:
        """Return both as they are: there is no memory."""
        return head_output, fake_rnn_states

    def _core_rnn(self, head_output: Head, rnn_states: Tensor) -> tuple[Head, Tensor]:
        """Go through both cores, which have one half each of what comes in."""
        rows = head_output.data
        pairs = zip(self.cores, rows.chunk(2, dim=-1), rnn_states.chunk(2, dim=-1), strict=True)
        if isinstance(head_output, PackedSequence):
            outcomes = [core(head_output._replace(data=half), states) for core, half, states in pairs]
            output: Head = head_output._replace(data=torch.cat([each.data for each, _ in outcomes], dim=-1))
        else:
            outcomes = [core(half, states) for core, half, states in pairs]
            output = torch.cat([each for each, _ in outcomes], dim=-1)
        return output, torch.cat([states for _, states in outcomes], dim=-1)

    def forward_tail(
        self, core_output: Tensor, values_only: bool, sample_actions: bool, action_mask: Tensor | None = None
    ) -> TensorDict:
        """Return values, and what actions are drawn from."""
        halves = core_output.chunk(2, dim=-1)
        actor, critic = (decoder(half) for decoder, half in zip(self.decoders, halves, strict=True))
        return self._outcome(actor, critic, values_only, sample_actions, action_mask)


def default_make_actor_critic_func(cfg: Any, obs_space: Any, action_space: gymnasium.Space[Any]) -> ActorCritic:
    """Make the network that options describe, registered parts included."""
    kind = ActorCriticSharedWeights if cfg.actor_critic_share_weights else ActorCriticSeparateWeights
    return kind(global_model_factory(), obs_space_without_action_mask(obs_space), action_space, cfg)


def obs_space_without_action_mask(obs_space: Any) -> Any:
    """Return a space of observations without that of an action mask."""
    if not isinstance(obs_space, spaces.Dict):
        return obs_space
    return spaces.Dict({key: space for key, space in obs_space.items() if key != ACTION_MASK_KEY})
