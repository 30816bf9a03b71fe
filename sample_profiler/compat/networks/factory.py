"""Owns where Sample Factory's code registers parts of networks, which become those of this package. No PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium import spaces

from sample_profiler.compat.serving.place import come_first
from sample_profiler.compat.settings.carrying import view_of
from sample_profiler.config import Config
from sample_profiler.errors import ConfigError
from sample_profiler.model.registry import (
    Kind,
    register_actor_critic,
    register_core,
    register_decoder,
    register_encoder,
    registered_maker,
)

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ModelFactory", "get_rnn_size", "global_model_factory"]

Make = Callable[..., Any]


class ModelFactory:
    """Takes the functions that make a script's own parts of a network, or the whole of it.

    Attributes:
        make_model_encoder_func: What makes encoders: the registered function, or the package's own.
        make_model_core_func: The same of cores.
        make_model_decoder_func: The same of decoders.
        make_actor_critic_func: The same of whole networks.
    """

    def register_encoder_factory(self, make_model_encoder_func: Make) -> None:
        """Use a function called as `make(cfg, obs_space)`."""
        register_encoder(_EncoderMaker(make_model_encoder_func))

    def register_model_core_factory(self, make_model_core_func: Make) -> None:
        """Use a function called as `make(cfg, core_input_size)`."""
        register_core(_CoreMaker(make_model_core_func), _width_of_one_core)

    def register_decoder_factory(self, make_model_decoder_func: Make) -> None:
        """Use a function called as `make(cfg, decoder_input_size)`."""
        register_decoder(_PartMaker(make_model_decoder_func))

    def register_actor_critic_factory(self, make_actor_critic_func: Make) -> None:
        """Use a function called as `make(cfg, obs_space, action_space)`, which makes the whole network."""
        register_actor_critic(_ActorCriticMaker(make_actor_critic_func), get_rnn_size)

    def check(self, cfg: Any) -> None:
        """Refuse what would silently be another network than is meant.

        Args:
            cfg: Options of the run.

        Raises:
            ConfigError: A core is registered, and no core is asked for.
        """
        is_part_of_ours = registered_maker("actor_critic") is None
        if is_part_of_ours and registered_maker("core") is not None and not cfg["use_rnn"]:
            raise ConfigError(
                ["--use_rnn=False: a core is registered, which only networks with --use_rnn=True have here: set that"]
            )

    @property
    def make_model_encoder_func(self) -> Make:
        """What makes encoders."""
        from sample_profiler.compat.networks.parts import default_make_encoder_func

        return _registered("encoder") or default_make_encoder_func

    @property
    def make_model_core_func(self) -> Make:
        """What makes cores."""
        from sample_profiler.compat.networks.parts import default_make_core_func

        return _registered("core") or default_make_core_func

    @property
    def make_model_decoder_func(self) -> Make:
        """What makes decoders."""
        from sample_profiler.compat.networks.parts import default_make_decoder_func

        return _registered("decoder") or default_make_decoder_func

    @property
    def make_actor_critic_func(self) -> Make:
        """What makes whole networks."""
        from sample_profiler.compat.networks.actor_critics import default_make_actor_critic_func

        return _registered("actor_critic") or default_make_actor_critic_func


come_first()  # the functions that make parts are about to be imported, where these are made

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


def _registered(kind: Kind) -> Make | None:
    """Return what a script has registered, in whichever process of its run."""
    maker = registered_maker(kind)
    return maker.make if isinstance(maker, _Maker) else maker


def _width_of_one_core(cfg: Any) -> int:
    if not cfg.use_rnn:
        return 1
    return int(cfg.rnn_size * cfg.rnn_num_layers * (2 if cfg.rnn_type == "lstm" else 1))


@dataclass(frozen=True)
class _Maker:
    """Makes a part by a function written for Sample Factory.

    Attributes:
        make: The function.
    """

    make: Make


class _PartMaker(_Maker):
    """Makes a decoder."""

    def __call__(self, cfg: Config, input_size: int) -> nn.Module:
        return _with_output_size(self.make(view_of(cfg), input_size))


class _EncoderMaker(_Maker):
    """Makes an encoder."""

    def __call__(self, cfg: Config, observation_space: spaces.Dict) -> nn.Module:
        from sample_profiler.compat.networks.inputs import ExpectedInputs

        encoder = _with_output_size(self.make(view_of(cfg), observation_space))
        expected = ExpectedInputs.of(encoder, observation_space)
        if expected.coded or expected.types:
            encoder.register_forward_pre_hook(expected)
        return encoder


class _ActorCriticMaker(_Maker):
    """Makes a whole network."""

    def __call__(self, cfg: Config, observation_space: spaces.Dict, action_space: gymnasium.Space[Any]) -> nn.Module:
        from sample_profiler.compat.networks.own_actions import check_actions
        from sample_profiler.compat.networks.whole import AdaptedActorCritic

        view = view_of(cfg)
        network = self.make(view, observation_space, action_space)
        adapted = AdaptedActorCritic(network, view, observation_space)
        check_actions(network, view, observation_space, action_space)
        return adapted


class _CoreMaker(_Maker):
    """Makes a core."""

    def __call__(self, cfg: Config, input_size: int) -> nn.Module:
        from sample_profiler.compat.networks.cores import AdaptedCore

        return AdaptedCore(_with_output_size(self.make(view_of(cfg), input_size)), _width_of_one_core(cfg))


def _with_output_size(part: nn.Module) -> nn.Module:
    """Say how wide what a part returns is, in the way of this package."""
    if callable(get_size := getattr(part, "get_out_size", None)):
        setattr(part, "output_size", int(get_size()))  # noqa: B010 - a module's attributes are modules to mypy
    return part
