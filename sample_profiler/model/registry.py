"""A user's own encoder, recurrent core, decoder or network, in this process and in those it starts. Imports no PyTorch.

As environments do, what is registered travels to the processes that build networks: a script may register inside a
function, which its workers never call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from sample_profiler.errors import ModelError, describe_error
from sample_profiler.portable import pack_function, unpack_function

if TYPE_CHECKING:
    from torch import nn

    from sample_profiler.config import Config

__all__ = [
    *("ModelParts", "Role", "export_model_parts", "import_model_parts", "recurrent_state_size", "registered_maker"),
    *("register_actor_critic", "register_core", "register_decoder", "register_encoder", "registered_parts"),
    *("takes_role", "unregister_parts"),
]

Kind = Literal["encoder", "core", "decoder", "actor_critic"]
Role = Literal["actor", "critic", "both"]
Make = Callable[..., "nn.Module"]


@dataclass(frozen=True)
class ModelParts:
    """Functions that make a user's own parts of a network; None: the package's own part is used.

    Attributes:
        encoder: called with the observation space, a `gymnasium.spaces.Dict`.
        core: called with the width of its input; used with `--use_rnn=True`.
        decoder: called with the width of its input.
        actor_critic: called with the observation space and the action space; the other parts are not used then.
    """

    encoder: Make | None = None
    core: Make | None = None
    decoder: Make | None = None
    actor_critic: Make | None = None


@dataclass(frozen=True)
class _StatefulMaker:
    """Makes what has states as wide as was said: the memory for them is there before any network is."""

    kind: Kind
    make: Make
    state_size: int | Callable[[Any], int]

    def __call__(self, cfg: Any, *arguments: Any) -> nn.Module:
        module = self.make(cfg, *arguments)
        # A whole network without a memory need not say that its states are one number that stays what it is.
        usual = 1 if self.kind == "actor_critic" else None
        size, said = getattr(module, "state_size", usual), self.state_size_of(cfg)
        if size != said:
            raise ModelError(
                f"the registered {self.kind} is {module!r:.200} with state_size {size!r}, and register_{self.kind}() "
                f"was told {said}: register it with the width of one agent's state"
            )
        return module

    def state_size_of(self, cfg: Any) -> int:
        """Return the width of one agent's state."""
        try:
            size = self.state_size(cfg) if callable(self.state_size) else self.state_size
        except Exception as error:
            raise ModelError(f"the state_size of the registered {self.kind} raised {describe_error(error)}") from error
        if not isinstance(size, int) or size < 1:
            raise ModelError(f"the state_size of the registered {self.kind} is {size!r}: it is a number of 1 or more")
        return size


_makers: dict[str, Make] = {}


def register_encoder(make: Make) -> None:
    """Use one's own encoder: what turns the observation of a step into one vector.

    Args:
        make: called as `make(cfg, observation_space)` with the run's configuration, in which every flag is an
            attribute, and a `gymnasium.spaces.Dict` (an observation that is no dictionary is under the key "obs",
            entries of nested ones are under "outer/inner"). Returns a module with an attribute `output_size`
            whose `forward` turns a dictionary of normalized float32 observations `[N, ...]` into `[N, output_size]`;
            a Discrete observation arrives as a vector with a one in it, a MultiDiscrete as such vectors one after
            another. With `--actor_critic_share_weights=False` it is called twice; if it has a parameter `role` it is
            told what for: "actor" or "critic", else "both".

    Raises:
        ModelError: `make` cannot be called.
    """
    _register("encoder", make)


def register_core(make: Make, state_size: int | Callable[[Any], int]) -> None:
    """Use one's own recurrent core instead of GRU or LSTM layers: what remembers an episode.

    Args:
        make: called as `make(cfg, input_size)`; returns a module with two attributes, `output_size` and `state_size`,
            and two methods: `step(head, state)` turns `[N, input_size]` and the states `[N, state_size]` of N agents
            into `[N, output_size]` and their next states; `sequence(head, state, starts_episode)` goes T steps at once,
            `[S, T, input_size]` from the states `[S, state_size]` to `[S, T, output_size]`, as `step` would one by one
            with a state of zeros wherever `starts_episode`, `[S, T]` bool, is True. States of zeros begin an episode.
            With `--actor_critic_share_weights=False` it is called twice, with `--use_rnn=False` not at all.
        state_size: width of one agent's state, or a function that returns it, called as `state_size(cfg)`: processes
            that have no PyTorch make room for states.

    Raises:
        ModelError: `make` cannot be called.
    """
    _register("core", make, state_size)


def register_decoder(make: Make) -> None:
    """Use one's own decoder: what stands between encoder or recurrent core and the heads for actions and value.

    Args:
        make: called as `make(cfg, input_size)`; returns a module with an attribute `output_size` that turns
            `[N, input_size]` into `[N, output_size]`.

    Raises:
        ModelError: `make` cannot be called.
    """
    _register("decoder", make)


def register_actor_critic(make: Make, state_size: int | Callable[[Any], int] = 1) -> None:
    """Use a whole network of one's own: actor and critic, from normalized observations to actions and values.

    Observations and returns are normalized around it, actions are drawn from the parameters that it returns, and what
    an action mask forbids gets no probability: it need know nothing of that. Its weights start as it made them.

    Args:
        make: called as `make(cfg, observation_space, action_space)` with the run's configuration, the spaces of what is
            seen as for `register_encoder`, without an action mask, and of actions. Returns a `torch.nn.Module` with two
            methods: `forward_head(observations)` turns a dictionary of normalized float32 observations `[N, ...]` into
            `[N, E]`, and `forward_tail(core)` turns `[N, C]` into the parameters of the distributions of actions
            `[N, P]` and values `[N]`. The parameters are, for each part of the action space one after another, a logit
            for each value of a Discrete (a MultiDiscrete or MultiBinary is as many of them as it has entries), and the
            means of a Box and then the logarithms of its standard deviations. With a memory it has an attribute
            `state_size` and two more methods, which work as `step` and `sequence` of `register_core`:
            `forward_core(head, states)` and `forward_core_sequence(head, states, starts_episode)`; without, C is E. If
            it has a method `summaries()`, which returns numbers by name, they are charted as `train/NAME`, unless the
            Learner has a figure of that name.
        state_size: width of one agent's state, or a function that returns it, called as `state_size(cfg)`: processes
            that have no PyTorch make room for states.

    Raises:
        ModelError: `make` cannot be called.
    """
    _register("actor_critic", make, state_size)


def takes_role(make: Make) -> bool:
    """Tell whether a function that makes an encoder wants to know what it is for."""
    try:
        return "role" in signature(make).parameters
    except (TypeError, ValueError):  # of what is written in C
        return False


def recurrent_state_size(config: Config) -> int:
    """Return the width of one agent's recurrent state, with what is registered or the package's own core.

    Raises:
        ModelError: what was registered is no width.
    """
    whole, maker = _makers.get("actor_critic"), _makers.get("core")
    if isinstance(whole, _StatefulMaker):
        return whole.state_size_of(config)
    if not config.model.use_rnn or not isinstance(maker, _StatefulMaker):
        return config.model.rnn_state_size
    size = maker.state_size_of(config)
    return size if config.model.actor_critic_share_weights else 2 * size


def registered_parts(cfg: Any) -> ModelParts:
    """Return what is registered, for this configuration."""
    return ModelParts(**{kind: partial(make, cfg) for kind, make in _makers.items()})


def registered_maker(kind: Kind) -> Make | None:
    """Return the function that was registered, as it was given; None: there is none.

    Args:
        kind: of what it makes.
    """
    maker = _makers.get(kind)
    return maker.make if isinstance(maker, _StatefulMaker) else maker


def export_model_parts() -> dict[str, bytes]:
    """Pack what is registered, for `import_model_parts` in another process."""
    return {kind: pack_function(make, f"the {kind}", ModelError) for kind, make in _makers.items()}


def import_model_parts(payload: dict[str, bytes]) -> None:
    """Register what `export_model_parts` packed, but for what is registered here already: it is the same code.

    Args:
        payload: of a process of the same run: unpacking executes code.
    """
    for kind, packed in payload.items():
        if kind not in _makers:
            _makers[kind] = unpack_function(packed, f"the {kind}", ModelError)


def unregister_parts() -> None:
    """Use the package's own parts of networks again, in this process and in those that it starts from now on."""
    _makers.clear()


def _register(kind: Kind, make: Make, state_size: int | Callable[[Any], int] | None = None) -> None:
    if not callable(make):
        raise ModelError(f"cannot register {make!r} as {kind}: give a function that makes a torch.nn.Module")
    _makers[kind] = make if state_size is None else _StatefulMaker(kind, make, state_size)
