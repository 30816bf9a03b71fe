"""Owns the network of a policy: what it does (actor) and how well it expects to fare (critic)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.errors import ModelError, describe_error
from sample_profiler.model.action_heads import cut_imported_layer, make_action_head
from sample_profiler.model.cores import Core, IdentityCore, RecurrentCore, make_core
from sample_profiler.model.distributions import ActionDistribution
from sample_profiler.model.encoders import ObservationEncoder, to_rows
from sample_profiler.model.kernels.kernels import Activation, is_traced
from sample_profiler.model.kernels.linear import Linear
from sample_profiler.model.kernels.perceptrons import Part, Stack, as_trained, fits, make_fused_mlp, pass_and_learn
from sample_profiler.model.layers import Mlp, initialize_weights
from sample_profiler.model.own_actor_critic import OwnActorCritic, made, some_observations
from sample_profiler.model.policy_network import PolicyNetwork, join, num_parameters, split
from sample_profiler.model.registry import ModelParts, Role, takes_role
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.spaces import ACTION_MASK_KEY

__all__ = ["ACTION_MASK_KEY", "ActorCritic", "make_actor_critic"]


class _Trunk(nn.Module):
    """Encoder, core and decoder: what actor and critic share, or have one each of."""

    def __init__(
        self,
        observation_spaces: Mapping[str, gymnasium.Space[Any]],
        options: ModelOptions,
        parts: ModelParts,
        role: Role,
    ) -> None:
        super().__init__()
        self.encoder: nn.Module
        if parts.encoder is None:
            self.encoder = ObservationEncoder(observation_spaces, options)
        else:
            make = partial(parts.encoder, role=role) if takes_role(parts.encoder) else parts.encoder
            self.encoder = made("encoder", make, spaces.Dict(dict(observation_spaces)))
        self.encoded_size = _output_size(self.encoder, "encoder")
        self.core: Core
        if parts.core is None or not options.use_rnn:
            self.core = make_core(self.encoded_size, options)
        else:
            self.core = cast("Core", made("core", parts.core, self.encoded_size))
            _output_size(self.core, "core")
        self.decoder: nn.Module
        if parts.decoder is None:
            self.decoder = Mlp(self.core.output_size, options.decoder_mlp_layers, options.nonlinearity)
            self.output_size = options.decoder_mlp_layers[-1] if options.decoder_mlp_layers else self.core.output_size
        else:
            self.decoder = made("decoder", parts.decoder, self.core.output_size)
            self.output_size = _output_size(self.decoder, "decoder")

    def image_keys(self) -> set[str]:
        """Return the keys of what nothing but convolutions of ours gets to see."""
        return set(self.encoder.image_keys()) if type(self.encoder) is ObservationEncoder else set()

    def linear_layers(self) -> list[tuple[Tensor, Tensor, Activation]] | None:
        """Return weights, bias and activation of each layer, if layers over one vector are all that the trunk is."""
        if not isinstance(self.encoder, ObservationEncoder) or not isinstance(self.core, IdentityCore):
            return None
        of_encoder = self.encoder.linear_layers()
        if of_encoder is None or not isinstance(self.decoder, Mlp) or not self.decoder.is_as_made:
            return None
        return [*of_encoder, *self.decoder.linear_layers]


class ActorCritic(PolicyNetwork):
    """The package's own network, with parts of one's own in the place of its parts.

    Attributes:
        trunks: encoder, core and decoder, one of each, or two: for actor and critic.
        action_head: the last layers of the actor.
        value_head: the last layer of the critic.
    """

    def __init__(
        self,
        model: ModelOptions,
        observations: ObservationOptions,
        observation_space: spaces.Dict,
        action_space: gymnasium.Space[Any],
        parts: ModelParts,
    ) -> None:
        """Make the layers; :func:`make_actor_critic` initializes them.

        Args:
            model: Layers and their initialization.
            observations: How observations are normalized.
            observation_space: Of one agent, by key, none of them nested.
            action_space: Of one agent: what `action_parts` knows.
            parts: Of the user's own.

        Raises:
            ConfigError: The options do not fit the spaces.
            ModelError: A part of the user's own is not what it has to be.
        """
        super().__init__(observations, observation_space, action_space)
        roles: tuple[Role, ...] = ("both",) if model.actor_critic_share_weights else ("actor", "critic")
        # A tuple beside the module list: torch's lists are slow to go through, and know nothing of types.
        self._trunks = tuple(_Trunk(self._seen, model, parts, role) for role in roles)
        self.trunks = nn.ModuleList(self._trunks)
        self._image_keys = set.intersection(*(trunk.image_keys() for trunk in self._trunks))
        actor, critic = self._trunks[0], self._trunks[-1]
        self.action_head = make_action_head(action_space, actor.output_size, model)
        self.value_head = Linear(critic.output_size, 1)
        self.register_load_state_dict_pre_hook(cut_imported_layer)  # type: ignore[no-untyped-call]
        self._has_own_parts = parts != ModelParts()
        # The widths of what travels side by side from head to tail.
        mask_sizes = [self._mask_size] if self._is_masked else []
        self._head_sizes = [trunk.encoded_size for trunk in self._trunks] + mask_sizes
        self._core_sizes = [trunk.core.output_size for trunk in self._trunks] + mask_sizes
        self._state_sizes = [trunk.core.state_size for trunk in self._trunks]
        self.state_size = sum(self._state_sizes)
        self._remembers = not all(type(trunk.core) is IdentityCore for trunk in self._trunks)
        self._fused: tuple[Callable[[Tensor], Tensor | None], ...] = ()  # of each trunk, with the heads; see pack
        self._are_parts_packed = False

    def pack(self) -> None:
        """Prepare the weights for inference; after each change of them again."""
        self._fused = self._fuse()
        # Not the parts, too, unless they are needed: new weights come often, and packing both cost HalfCheetah 2 %.
        if not self._fused or self._are_parts_packed:
            self._pack_parts()

    def prepare_sequences(self, most: int) -> None:
        """Get ready for :meth:`forward_core_sequence` with up to so many fragments of episodes."""
        for trunk in self._trunks:
            if isinstance(trunk.core, RecurrentCore):
                trunk.core.prepare_sequences(most)

    def _pack_parts(self) -> None:
        self._are_parts_packed = True
        for module in self.modules():
            if isinstance(module, Linear | RecurrentCore):
                module.pack()

    def _fuse(self) -> tuple[Callable[[Tensor], Tensor | None], ...]:
        """Return all layers from a normalized vector to outputs as one pass for each trunk, where they are small."""
        if not self.value_head.weight.is_cpu:
            return ()
        fused = [make_fused_mlp(stack.in_one_part()) for stack in self._stacks()]
        return () if None in fused else tuple(mlp for mlp in fused if mlp is not None)

    def _stacks(self) -> list[Stack]:
        """Return each trunk with its heads, if layers over one normalized vector are all that the network is."""
        if self._is_masked or self._has_own_parts:  # a part that extends ours may do something else
            return []
        parts, trunks = self.action_head.parts_of_layer(), [trunk.linear_layers() for trunk in self._trunks]
        if parts is None or None in trunks:
            return []
        value, num_parameters = (self.value_head.weight, self.value_head.bias), self.action_head.num_parameters
        heads: list[tuple[Sequence[Part], list[int]]] = [(parts, [num_parameters]), ([value], [1])]
        if len(trunks) == 1:  # as one layer: parameters, then the value
            heads = [([*parts, value], [num_parameters, 1])]
        return [
            Stack([*as_trained(layers or ()), (head, Activation.NONE)], widths)
            for layers, (head, widths) in zip(trunks, heads, strict=True)
        ]

    def cast(self, dtype: torch.dtype) -> None:
        """Let encoders, cores and decoders have their weights in another type."""
        self.trunks.to(dtype)

    @property
    def can_be_graphed(self) -> bool:
        """Whether each step of inference computes the same, where it did the time before: not decided by the host."""
        return not self._has_own_parts

    @property
    def num_multiplications(self) -> int | None:
        """Of one step forwards; None: not known, since there are convolutions, or parts of the user's own."""
        if self._has_own_parts or any(isinstance(module, nn.Conv2d) for module in self.modules()):
            return None
        return self.num_parameters  # each is multiplied once, but for some that are added

    def describe(self) -> str:
        """Return, for people, how many parameters there are, and in which parts."""
        parts = {
            name: [trunk.get_submodule(name) for trunk in self._trunks] for name in ("encoder", "core", "decoder")
        } | {"heads": [self.action_head, self.value_head]}
        sizes = {name: sum(map(num_parameters, modules)) for name, modules in parts.items()}
        return f"{self.num_parameters:,} parameters ({', '.join(f'{n} {size:,}' for n, size in sizes.items() if size)})"

    def forward(self, normalized: Mapping[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Go one step, in one pass where the network is small enough for it."""
        if self._fused and (inferred := self._infer(normalized)) is not None:
            return *inferred, states
        return super().forward(normalized, states)

    @profile_range("ActorCritic.infer")
    def _infer(self, normalized: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
        """Return parameters and values in one pass, if :meth:`pack` found that the network is small enough for it."""
        if torch.is_grad_enabled() or is_traced():
            return None
        (observation,) = normalized.values()
        rows = to_rows(observation)
        parameters = self._fused[0](rows)
        values = parameters if parameters is None or len(self._fused) == 1 else self._fused[1](rows)
        if parameters is None or values is None:  # more rows than one pass is for: part by part, from now on prepared
            if not self._are_parts_packed:
                self._pack_parts()
            return None
        return parameters[:, : self.action_head.num_parameters], values[:, -1]

    @profile_range("ActorCritic.forward_at_once")
    def forward_at_once(self, observations: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
        """Go all the way in one pass where the network is small layers over one vector."""
        if not (stacks := self._stacks()):
            return None
        (observation,) = observations.values()
        if not fits(to_rows(observation).shape, stacks):
            return None
        (normalized,) = self.normalize(observations).values()
        passed = pass_and_learn(to_rows(normalized), stacks)
        return None if passed is None else (passed[0], passed[1].squeeze(-1))

    @profile_range("ActorCritic.forward_head")
    def forward_head(self, normalized: Mapping[str, Tensor]) -> Tensor:
        """Encode observations from :meth:`normalize`, ``[N, E]``."""
        parts: list[Tensor] = [trunk.encoder(normalized) for trunk in self._trunks]
        if self._is_masked:
            parts.append(normalized[ACTION_MASK_KEY].to(parts[0].dtype))
        return join(parts)

    @profile_range("ActorCritic.forward_core")
    def forward_core(self, head: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Go one step through the core.

        Args:
            head: ``[N, E]``.
            states: ``[N, H]``.

        Returns:
            Output ``[N, C]`` and next states ``[N, H]``.
        """
        if not self._remembers:
            return head, states
        outputs = split(head, self._head_sizes)
        new_states = split(states, self._state_sizes)
        for index, trunk in enumerate(self._trunks):
            # States are kept in float32, whatever the network computes in.
            state = new_states[index].to(outputs[index].dtype)
            outputs[index], new_states[index] = trunk.core.step(outputs[index], state)
        return join(outputs), join(new_states).float()

    @profile_range("ActorCritic.forward_core_sequence")
    def forward_core_sequence(self, head: Tensor, states: Tensor, starts_episode: Tensor) -> Tensor:
        """Go T steps through the core, as T calls of :meth:`forward_core` would.

        Args:
            head: ``[S, T, E]``.
            states: ``[S, H]``, before the first step.
            starts_episode: ``[S, T]`` bool, True where a step is the first of an episode: it is entered with zeros.

        Returns:
            ``[S, T, C]``.
        """
        outputs = split(head, self._head_sizes)
        first_states = split(states, self._state_sizes)
        for index, trunk in enumerate(self._trunks):
            state = first_states[index].to(outputs[index].dtype)
            outputs[index] = trunk.core.sequence(outputs[index], state, starts_episode)
        return join(outputs)

    @profile_range("ActorCritic.forward_tail")
    def forward_tail(self, core: Tensor) -> tuple[Tensor, Tensor]:
        """Turn the core's output ``[N, C]`` into parameters of distributions ``[N, P]`` and values ``[N]``, float32.

        Values are in units of normalized returns if the learner normalizes returns.
        """
        parts = split(core, self._core_sizes)
        decoded: list[Tensor] = [trunk.decoder(part) for trunk, part in zip(self._trunks, parts, strict=False)]
        mask = parts[-1] if self._is_masked else None
        device = core.device.type
        if decoded[0].dtype == torch.float32 and not torch.is_autocast_enabled(device):
            return self._apply_heads(decoded, mask)
        with torch.autocast(device, enabled=False):
            return self._apply_heads([part.float() for part in decoded], mask)

    def _apply_heads(self, decoded: list[Tensor], mask: Tensor | None) -> tuple[Tensor, Tensor]:
        parameters: Tensor = self.action_head(decoded[0], mask)
        values: Tensor = self.value_head(decoded[-1])
        return parameters, values.squeeze(-1)

    def action_distribution(self, parameters: Tensor) -> ActionDistribution:
        """Make the distributions that parameters ``[N, P]`` from :meth:`forward_tail` describe."""
        return self.action_head.distribution(parameters)

    def __getstate__(self) -> dict[str, Any]:
        # What is prepared is a copy of the weights of one moment: with others it would be wrong.
        return self.__dict__ | {"_fused": (), "_are_parts_packed": False}


def make_actor_critic(
    model: ModelOptions,
    observations: ObservationOptions,
    observation_space: spaces.Dict,
    action_space: gymnasium.Space[Any],
    parts: ModelParts | None = None,
) -> PolicyNetwork:
    """Make the network that the options ask for; its weights are drawn from torch's global generator.

    Args:
        model: Layers and their initialization.
        observations: How observations are normalized.
        observation_space: Of one agent, by key, none of them nested.
        action_space: Of one agent: what `action_parts` knows.
        parts: Of the user's own; their linear and convolutional layers are initialized as all others, those of a whole
            actor-critic stay as they are.

    Raises:
        ConfigError: The options do not fit the spaces.
        ModelError: A part of the user's own is not what it has to be.
    """
    parts = parts or ModelParts()
    if parts.actor_critic is not None:
        return OwnActorCritic(parts.actor_critic, observations, observation_space, action_space)
    network = ActorCritic(model, observations, observation_space, action_space, parts)
    initialize_weights(network, model)
    network.action_head.initialize(model.action_init_gain)
    if parts != ModelParts():  # those of the package are known to fit
        _check_parts(network, observation_space)
    return network


def _output_size(module: Any, kind: str) -> int:
    size = getattr(module, "output_size", None)
    if not isinstance(module, nn.Module) or not isinstance(size, int) or size < 1:
        raise ModelError(
            f"the registered {kind} is {module!r:.200} with output_size {size!r}; it is a torch.nn.Module whose "
            "output_size is the width of what it returns"
        )
    return size


@torch.no_grad()
def _check_parts(network: ActorCritic, observation_space: spaces.Dict) -> None:
    """Send two steps through a network with parts of the user's own: an error here is easier to read than later."""
    observations = some_observations(observation_space, 2)
    try:
        head = network.forward_head(network.normalize(observations))
        states, starts = torch.zeros(2, network.state_size), torch.tensor([[True, False, True]] * 2)
        core, new_states = network.forward_core(head, states)
        network.forward_tail(core)
        sequence = network.forward_core_sequence(head.unsqueeze(1).expand(-1, 3, -1), states, starts)
    except Exception as error:
        raise ModelError(
            f"the registered encoder, core or decoder fails with two observations: {describe_error(error)}; "
            "the encoder gets a dictionary of normalized observations [N, ...] and returns [N, output_size]; a core "
            "has step(head, state) and sequence(head, state, starts_episode)"
        ) from error
    if new_states.shape != states.shape or sequence.shape != (2, 3, core.shape[-1]):
        raise ModelError(
            f"the registered core turns states {list(states.shape)} into {list(new_states.shape)} in step(), and three "
            f"steps of two agents into {list(sequence.shape)} in sequence(); they are to be {list(states.shape)} and "
            f"{[2, 3, core.shape[-1]]}"
        )
