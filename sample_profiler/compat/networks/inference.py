"""Owns networks for loops of one's own, with the interface that Sample Factory's have there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import gymnasium
import torch
from torch import Tensor, nn

from sample_profiler.compat.helpers.tensors import TensorDict, ensure_torch_tensor
from sample_profiler.compat.networks.distributions import Distribution, get_action_distribution
from sample_profiler.compat.networks.normalizers import RunningMeanStdInPlace
from sample_profiler.compat.networks.parts import model_device, model_options_of, options_of
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.config import ObservationOptions
from sample_profiler.foreign.layout import name_as_original, translate_model
from sample_profiler.model import make_actor_critic
from sample_profiler.model.registry import registered_parts
from sample_profiler.spaces import ACTION_MASK_KEY, as_dict_space, plain_space, split_action_mask

__all__ = ["InferenceModel", "create_actor_critic", "prepare_and_normalize_obs"]


class InferenceModel(nn.Module):
    """A network that is asked for actions, one step after the other.

    Args:
        cfg: Options of its layers.
        obs_space: Of one agent.
        action_space: Of one agent.

    Attributes:
        network: Of this package.
    """

    def __init__(self, cfg: AttrDict, obs_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
        super().__init__()
        self.cfg = cfg
        self.action_space = action_space
        observations = options_of(ObservationOptions, cfg)
        self._space = as_dict_space(plain_space(obs_space))
        spaces_of_agent = self._space, plain_space(action_space)
        self.network = make_actor_critic(model_options_of(cfg), observations, *spaces_of_agent, registered_parts(cfg))
        _, self._mask_size = split_action_mask(*spaces_of_agent)
        self.last_action_distribution: Distribution | None = None

    def __getattr__(self, name: str) -> Any:
        """Return what is nothing of this module: of a whole network of the script's own, else of the actor's parts.

        So `encoder`, `core` and `decoder` are found, and the methods that a script has given its network.
        """
        try:
            return super().__getattr__(name)
        except AttributeError:
            if (network := self._modules.get("network")) is None:
                raise
            own = getattr(network, "own", None)
            return getattr(network.trunks[0] if own is None else own.actor_critic, name)  # type: ignore[index]

    @property
    def returns_normalizer(self) -> RunningMeanStdInPlace | None:
        """What makes returns of `values`, in place, if called with `denormalize=True`; None: they are returns."""
        if not self.cfg.normalize_returns:
            return None
        statistics, normalizer = self.network.returns_normalizer, RunningMeanStdInPlace((1,)).train(self.training)
        normalizer.running_mean, normalizer.running_var = statistics.mean.view(1), statistics.variance.view(1)
        normalizer.count = statistics.count.view(1)
        return normalizer

    @property
    def obs_normalizer(self) -> nn.Module:
        """What :meth:`normalize_obs` asks."""
        return self.network.observation_normalizer

    @property
    def critic_linear(self) -> nn.Module:
        """What makes values of the decoder's output."""
        return cast("nn.Module", self.network.value_head)

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Return the weights, as Sample Factory names them; of a whole network of a script's own as they are here."""
        state = super().state_dict(*arguments, **options)
        if arguments or options.get("prefix") or getattr(self.network, "own", None) is not None:
            return state
        own = {name.removeprefix("network."): value for name, value in state.items()}
        return name_as_original(own, self._space)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load the weights of a checkpoint: of a run of this package, or of one of Sample Factory."""
        if any(name.startswith(("encoder.", "actor_encoder.", "critic_linear.")) for name in state_dict):
            state_dict = translate_model(state_dict)
        elif any(name.startswith("network.") for name in state_dict):
            return super().load_state_dict(state_dict, strict, assign)
        return self.network.load_state_dict(state_dict, strict, assign)

    def model_to_device(self, device: torch.device) -> None:
        """Move the network."""
        self.to(device)

    def device_for_input_tensor(self, input_tensor_name: str) -> torch.device | None:  # noqa: ARG002
        """Return where an observation has to be."""
        return model_device(self)

    def type_for_input_tensor(self, input_tensor_name: str) -> torch.dtype:  # noqa: ARG002
        """Return the type that a normalized observation has."""
        return torch.float32

    def normalize_obs(self, obs: Mapping[str, Tensor]) -> TensorDict:
        """Normalize observations `[N, ...]`, by key; those that the network does not know are left out."""
        return TensorDict(self.network.observation_normalizer(obs))

    def forward(
        self,
        normalized_obs_dict: Mapping[str, Tensor],
        rnn_states: Tensor,
        values_only: bool = False,
        action_mask: Tensor | None = None,
    ) -> TensorDict:
        """Go one step with N agents.

        Args:
            normalized_obs_dict: From :meth:`normalize_obs`.
            rnn_states: `[N, H]`, zeros where an episode begins.
            values_only: Leave out the actions.
            action_mask: `[N, n]`, 0 for each value of the action that is not allowed.

        Returns:
            `values` `[N]`, `new_rnn_states`, `actions` (`[N]`, or `[N, width]`), `log_prob_actions`, `action_logits`.
        """
        head = self.forward_head(normalized_obs_dict, action_mask)
        core, new_states = self.forward_core(head, rnn_states)
        result = self.forward_tail(core, values_only, sample_actions=True, action_mask=action_mask)
        result["new_rnn_states"] = new_states
        return result

    def forward_head(self, normalized_obs_dict: Mapping[str, Tensor], action_mask: Tensor | None = None) -> Tensor:
        """Encode observations; behind the encoding is the action mask, if the observations have one."""
        inputs = dict(normalized_obs_dict)
        if ACTION_MASK_KEY in self._space.spaces:  # what knows none is not shown one
            if action_mask is not None:
                inputs[ACTION_MASK_KEY] = action_mask
            elif ACTION_MASK_KEY not in inputs:
                inputs[ACTION_MASK_KEY] = torch.ones(len(next(iter(inputs.values()))), self._mask_size)
        return self.network.forward_head(inputs)

    def forward_core(self, head_output: Tensor, rnn_states: Tensor) -> tuple[Tensor, Tensor]:
        """Go one step through the core."""
        return self.network.forward_core(head_output, rnn_states)

    def forward_tail(
        self, core_output: Tensor, values_only: bool, sample_actions: bool, action_mask: Tensor | None = None
    ) -> TensorDict:
        """Return values, and what actions are drawn from; the mask of an observation has come with its encoding."""
        parameters, values = self.network.forward_tail(core_output)
        result = TensorDict(values=values)
        if values_only:
            return result
        has_mask = ACTION_MASK_KEY in self._space.spaces
        distribution = get_action_distribution(self.action_space, parameters, None if has_mask else action_mask)
        self.last_action_distribution = distribution
        result["action_logits"] = distribution.raw_logits
        if sample_actions:
            actions, result["log_prob_actions"] = distribution.sample_actions_log_probs()
            result["actions"] = actions.squeeze(1)
        return result

    def action_distribution(self) -> Distribution | None:
        """Return what the latest actions were drawn from; None: there were none."""
        return self.last_action_distribution

    def summaries(self) -> dict[str, float]:
        """Return nothing: figures of a network are those of its Learner here."""
        return {}


def create_actor_critic(
    cfg: Any, obs_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> InferenceModel:
    """Make the network that options describe, registered parts included."""
    return InferenceModel(AttrDict(cfg if isinstance(cfg, Mapping) else vars(cfg)), obs_space, action_space)


def prepare_and_normalize_obs(model: InferenceModel, obs: Mapping[str, Any]) -> TensorDict:
    """Return observations of N agents as a network takes them, from tensors or arrays by key."""
    device = model_device(model)
    return model.normalize_obs({key: ensure_torch_tensor(value).to(device) for key, value in obs.items()})
