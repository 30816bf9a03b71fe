"""Owns where Sample Factory's code registers parts of networks, which become those of this package. No PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from sample_profiler.compat.settings.carrying import view_of
from sample_profiler.config import Config
from sample_profiler.errors import ConfigError, ModelError
from sample_profiler.model.registry import register_core, register_decoder, register_encoder

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ModelFactory", "get_rnn_size", "global_model_factory"]

Make = Callable[..., Any]


class ModelFactory:
    """Takes the functions that make a script's own parts of a network.

    Attributes:
        make_model_encoder_func: What makes encoders: the registered function, or the package's own.
        make_model_core_func: The same of cores.
        make_model_decoder_func: The same of decoders.
    """

    def __init__(self) -> None:
        self._made: dict[str, Make] = {}

    def register_encoder_factory(self, make_model_encoder_func: Make) -> None:
        """Use a function called as `make(cfg, obs_space)`."""
        self._made["encoder"] = make_model_encoder_func
        register_encoder(_EncoderMaker(make_model_encoder_func))

    def register_model_core_factory(self, make_model_core_func: Make) -> None:
        """Use a function called as `make(cfg, core_input_size)`."""
        self._made["core"] = make_model_core_func
        register_core(_CoreMaker(make_model_core_func), _width_of_one_core)

    def register_decoder_factory(self, make_model_decoder_func: Make) -> None:
        """Use a function called as `make(cfg, decoder_input_size)`."""
        self._made["decoder"] = make_model_decoder_func
        register_decoder(_PartMaker(make_model_decoder_func))

    def register_actor_critic_factory(self, make_actor_critic_func: Make) -> None:
        """Refuse.

        Raises:
            ModelError: Always, and says what can be done.
        """
        raise ModelError(
            f"register_actor_critic_factory({make_actor_critic_func!r:.100}) is not served: a whole actor-critic "
            "cannot be replaced here; register its encoder, core and decoder"
        )

    def check(self, cfg: Any) -> None:
        """Refuse what would silently be another network than is meant.

        Args:
            cfg: Options of the run.

        Raises:
            ConfigError: A core is registered, and no core is asked for.
        """
        if "core" in self._made and not cfg["use_rnn"]:
            raise ConfigError(
                ["--use_rnn=False: a core is registered, which only networks with --use_rnn=True have here: set that"]
            )

    @property
    def make_model_encoder_func(self) -> Make:
        """What makes encoders."""
        from sample_profiler.compat.networks.parts import default_make_encoder_func

        return self._made.get("encoder", default_make_encoder_func)

    @property
    def make_model_core_func(self) -> Make:
        """What makes cores."""
        from sample_profiler.compat.networks.parts import default_make_core_func

        return self._made.get("core", default_make_core_func)

    @property
    def make_model_decoder_func(self) -> Make:
        """What makes decoders."""
        from sample_profiler.compat.networks.parts import default_make_decoder_func

        return self._made.get("decoder", default_make_decoder_func)


_FACTORY = ModelFactory()


def global_model_factory() -> ModelFactory:
    """Return where this process's parts of networks are registered."""
    return _FACTORY


def get_rnn_size(cfg: Any) -> int:
    """Return the width of one agent's recurrent state, of actor and critic together.

    Args:
        cfg: Options, with `use_rnn`, `rnn_size`, `rnn_num_layers`, `rnn_type` and `actor_critic_share_weights`.
    """
    return _width_of_one_core(cfg) * (1 if cfg.actor_critic_share_weights else 2)


def _width_of_one_core(cfg: Any) -> int:
    if not cfg.use_rnn:
        return 1
    return int(cfg.rnn_size * cfg.rnn_num_layers * (2 if cfg.rnn_type == "lstm" else 1))


@dataclass(frozen=True)
class _PartMaker:
    """Makes a decoder by a function written for Sample Factory.

    Attributes:
        make: The function.
    """

    make: Make

    def __call__(self, cfg: Config, input_size: int) -> nn.Module:
        return _with_output_size(self.make(view_of(cfg), input_size))


@dataclass(frozen=True)
class _EncoderMaker:
    """Makes an encoder likewise.

    Attributes:
        make: The function.
    """

    make: Make

    def __call__(self, cfg: Config, observation_space: spaces.Dict) -> nn.Module:
        encoder = _with_output_size(self.make(view_of(cfg), observation_space))
        starts = {k: int(s.start) for k, s in observation_space.items() if isinstance(s, spaces.Discrete)}
        if starts:
            encoder.register_forward_pre_hook(_WithValues(starts))
        return encoder


@dataclass(frozen=True)
class _WithValues:
    """Gives an encoder the values of Discrete observations, of which it knows no vectors with a one in them.

    Attributes:
        starts: First value of each such observation, by key.
    """

    starts: Mapping[str, int]

    def __call__(self, _encoder: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        observations, *others = arguments
        values = {key: observations[key].argmax(dim=-1).float() + start for key, start in self.starts.items()}
        return {**observations, **values}, *others


@dataclass(frozen=True)
class _CoreMaker:
    """Makes a core likewise.

    Attributes:
        make: The function.
    """

    make: Make

    def __call__(self, cfg: Config, input_size: int) -> nn.Module:
        from sample_profiler.compat.networks.cores import AdaptedCore

        return AdaptedCore(_with_output_size(self.make(view_of(cfg), input_size)), _width_of_one_core(cfg))


def _with_output_size(part: nn.Module) -> nn.Module:
    """Say how wide what a part returns is, in the way of this package."""
    if not hasattr(part, "output_size") and callable(get_size := getattr(part, "get_out_size", None)):
        setattr(part, "output_size", int(get_size()))  # noqa: B010 - a module's attributes are modules to mypy
    return part
