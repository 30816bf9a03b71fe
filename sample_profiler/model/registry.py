"""A user's own encoder, recurrent core and decoder, in this process and in the processes it starts. Imports no PyTorch.

As environments do, what is registered travels to the processes that build networks: a script may register inside a
function, which its workers never call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sample_profiler.errors import ModelError
from sample_profiler.portable import pack_function, unpack_function

if TYPE_CHECKING:
    from torch import nn

    from sample_profiler.config import Config

__all__ = [
    *("ModelParts", "export_model_parts", "import_model_parts", "recurrent_state_size", "register_core"),
    *("register_decoder", "register_encoder", "registered_parts"),
]

Kind = Literal["encoder", "core", "decoder"]
Make = Callable[..., "nn.Module"]


@dataclass(frozen=True)
class ModelParts:
    """Functions that make a user's own parts of a network; None: the package's own part is used.

    Attributes:
        encoder: called with the observation space, a `gymnasium.spaces.Dict`.
        core: called with the width of its input; used with `--use_rnn=True`.
        decoder: called with the width of its input.
    """

    encoder: Make | None = None
    core: Make | None = None
    decoder: Make | None = None


@dataclass(frozen=True)
class _CoreMaker:
    """Makes a core whose states are as wide as was said: the memory for them is there before any network is."""

    make: Make
    state_size: int | Callable[[Any], int]

    def __call__(self, cfg: Any, input_size: int) -> nn.Module:
        core = self.make(cfg, input_size)
        size, said = getattr(core, "state_size", None), self.state_size_of(cfg)
        if size != said:
            raise ModelError(
                f"the registered core is {core!r:.200} with state_size {size!r}, and register_core() was told {said}: "
                "register it with the width of one agent's state"
            )
        return core

    def state_size_of(self, cfg: Any) -> int:
        """Return the width of one agent's state."""
        try:
            size = self.state_size(cfg) if callable(self.state_size) else self.state_size
        except Exception as error:
            raise ModelError(f"the state_size of the registered core raised {type(error).__name__}: {error}") from error
        if not isinstance(size, int) or size < 1:
            raise ModelError(f"the state_size of the registered core is {size!r}: it is a number of 1 or more")
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
            another. With `--actor_critic_share_weights=False` it is called twice.

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
    if not callable(make):
        raise _not_a_function("core", make)
    _register("core", _CoreMaker(make, state_size))


def register_decoder(make: Make) -> None:
    """Use one's own decoder: what stands between encoder or recurrent core and the heads for actions and value.

    Args:
        make: called as `make(cfg, input_size)`; returns a module with an attribute `output_size` that turns
            `[N, input_size]` into `[N, output_size]`.

    Raises:
        ModelError: `make` cannot be called.
    """
    _register("decoder", make)


def recurrent_state_size(config: Config) -> int:
    """Return the width of one agent's recurrent state, with the core that is registered or the package's own.

    Raises:
        ModelError: what was registered is no width.
    """
    maker = _makers.get("core")
    if not config.model.use_rnn or not isinstance(maker, _CoreMaker):
        return config.model.rnn_state_size
    size = maker.state_size_of(config)
    return size if config.model.actor_critic_share_weights else 2 * size


def registered_parts(cfg: Any) -> ModelParts:
    """Return what is registered, for this configuration."""
    return ModelParts(**{kind: partial(make, cfg) for kind, make in _makers.items()})


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


def _register(kind: Kind, make: Make) -> None:
    if not callable(make):
        raise _not_a_function(kind, make)
    _makers[kind] = make


def _not_a_function(kind: Kind, make: object) -> ModelError:
    return ModelError(f"cannot register {make!r} as {kind}: give a function that makes a torch.nn.Module")
