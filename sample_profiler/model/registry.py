"""A user's own encoder and decoder, in this process and in the processes it starts. Imports no PyTorch.

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

__all__ = [
    *("ModelParts", "export_model_parts", "import_model_parts", "register_decoder", "register_encoder"),
    "registered_parts",
]

Kind = Literal["encoder", "decoder"]
Make = Callable[..., "nn.Module"]


@dataclass(frozen=True)
class ModelParts:
    """Functions that make a user's own parts of a network; None: the package's own part is used.

    Attributes:
        encoder: called with the observation space, a `gymnasium.spaces.Dict`.
        decoder: called with the width of its input.
    """

    encoder: Make | None = None
    decoder: Make | None = None


_makers: dict[str, Make] = {}


def register_encoder(make: Make) -> None:
    """Use one's own encoder: what turns the observation of a step into one vector.

    Args:
        make: called as `make(cfg, observation_space)` with the run's configuration, in which every flag is an
            attribute, and a `gymnasium.spaces.Dict` (an observation that is no dictionary is under the key "obs",
            entries of nested ones are under "outer/inner"). Returns a module with an attribute `output_size`
            whose `forward` turns a dictionary of normalized float32 observations `[N, ...]` into `[N, output_size]`;
            a Discrete observation arrives as a vector with a one in it. With `--actor_critic_share_weights=False` it
            is called twice.

    Raises:
        ModelError: `make` cannot be called.
    """
    _register("encoder", make)


def register_decoder(make: Make) -> None:
    """Use one's own decoder: what stands between encoder or recurrent core and the heads for actions and value.

    Args:
        make: called as `make(cfg, input_size)`; returns a module with an attribute `output_size` that turns
            `[N, input_size]` into `[N, output_size]`.

    Raises:
        ModelError: `make` cannot be called.
    """
    _register("decoder", make)


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
        raise ModelError(f"cannot register {make!r} as {kind}: give a function that makes a torch.nn.Module")
    _makers[kind] = make
