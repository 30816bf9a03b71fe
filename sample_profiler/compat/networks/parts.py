"""Owns the classes from which Sample Factory's code derives encoders, cores and decoders, and those it builds on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar, cast

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sample_profiler.compat.networks.cores import run_layers
from sample_profiler.config import ModelOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model.convolutions import find_problem_of_image, is_image
from sample_profiler.model.encoders import ConvEncoder, VectorEncoder
from sample_profiler.model.layers import Mlp

__all__ = [
    *("Decoder", "Encoder", "ImageEncoder", "MlpDecoder", "MlpEncoder", "ModelCore", "ModelCoreIdentity"),
    *("ModelCoreRNN", "ModelModule", "MultiInputEncoder", "calc_num_elements", "create_mlp"),
    *("default_make_core_func", "default_make_decoder_func", "default_make_encoder_func", "fc_layer"),
    *(
        "make_img_encoder",
        "model_device",
        "model_options_of",
        "nonlinearity",
        "options_of",
        "orthogonal_init",
        "he_normal_init",
    ),
]


Options = TypeVar("Options")


class ModelModule(nn.Module):
    """A part of a network.

    Attributes:
        cfg: The run's options.
    """

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.cfg = cfg

    def get_out_size(self) -> int:
        """Return the width of what the part returns; every part has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no get_out_size()")


class Encoder(ModelModule):
    """Turns a dictionary of observations `[N, ...]` into `[N, get_out_size()]`."""

    def model_to_device(self, device: torch.device) -> None:
        """Move the encoder."""
        self.to(device)

    def device_for_input_tensor(self, input_tensor_name: str) -> torch.device | None:  # noqa: ARG002
        """Return where an observation has to be."""
        return model_device(self)

    def type_for_input_tensor(self, input_tensor_name: str) -> torch.dtype:  # noqa: ARG002
        """Return the type that an observation has to have."""
        return torch.float32


class Decoder(ModelModule):
    """Turns `[N, input_size]` into `[N, get_out_size()]`."""


class ModelCore(ModelModule):
    """Turns `[N, input_size]`, or a `PackedSequence` of such, and states into as many outputs and the next states.

    Attributes:
        core_output_size: Width of the output; those who derive from this set it.
    """

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.core_output_size = -1

    def get_out_size(self) -> int:
        """Return the width of the output."""
        return self.core_output_size


class ModelCoreRNN(ModelCore):
    """GRU or LSTM layers, as `rnn_type`, `rnn_size` and `rnn_num_layers` say."""

    def __init__(self, cfg: Any, input_size: int) -> None:
        super().__init__(cfg)
        layers = nn.LSTM if cfg.rnn_type == "lstm" else nn.GRU
        self.core: nn.GRU | nn.LSTM = layers(input_size, cfg.rnn_size, cfg.rnn_num_layers)
        self.core_output_size = cfg.rnn_size
        self.rnn_num_layers = cfg.rnn_num_layers
        self.is_gru = cfg.rnn_type == "gru"

    def forward(
        self, head_output: Tensor | PackedSequence, rnn_states: Tensor
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Go a step, or sequences."""
        return run_layers(self.core, head_output, rnn_states)


class ModelCoreIdentity(ModelCore):
    """Remembers nothing."""

    def __init__(self, cfg: Any, input_size: int) -> None:
        super().__init__(cfg)
        self.core_output_size = input_size

    def forward(self, head_output: Any, fake_rnn_states: Tensor) -> tuple[Any, Tensor]:
        """Return both as they are."""
        return head_output, fake_rnn_states


class MlpEncoder(Encoder):
    """Fully connected layers, as `encoder_mlp_layers` says."""

    def __init__(self, cfg: Any, obs_space: spaces.Space[Any]) -> None:
        super().__init__(cfg)
        self.mlp_head = VectorEncoder(math.prod(obs_space.shape or ()), model_options_of(cfg))
        self.encoder_out_size = self.mlp_head.output_size

    def forward(self, obs: Tensor) -> Tensor:
        """Encode `[N, ...]`."""
        encoding: Tensor = self.mlp_head(obs)
        return encoding

    def get_out_size(self) -> int:
        """Return the width of the encoding."""
        return self.encoder_out_size


class ImageEncoder(ConvEncoder):
    """Convolutions, then fully connected layers, as `encoder_conv_architecture` and `encoder_conv_mlp_layers` say."""

    def __init__(self, cfg: Any, obs_space: spaces.Space[Any]) -> None:
        super().__init__(obs_space.shape or (), model_options_of(cfg))
        self.cfg = cfg
        self.encoder_out_size = self.output_size

    def get_out_size(self) -> int:
        """Return the width of the encoding."""
        return self.encoder_out_size


class MultiInputEncoder(Encoder):
    """Encodes each entry of an observation by itself, and puts the results side by side.

    Attributes:
        obs_keys: Of the entries, in the order of their encodings.
        encoders: Of the entries, by key.
        encoder_out_size: Width of the encoding; those who derive from this may change it.
    """

    def __init__(self, cfg: Any, obs_space: spaces.Dict) -> None:
        super().__init__(cfg)
        self.obs_keys = sorted(obs_space.spaces)
        encoders = {key: _encoder_of_entry(cfg, key, obs_space[key]) for key in self.obs_keys}
        self.encoders = nn.ModuleDict(encoders)
        self.encoder_out_size = sum(encoder.get_out_size() for encoder in encoders.values())

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """Encode N observations."""
        return torch.cat([self.encoders[key](obs_dict[key]) for key in self.obs_keys], dim=-1)

    def get_out_size(self) -> int:
        """Return the width of the encoding."""
        return self.encoder_out_size


class MlpDecoder(Decoder):
    """Fully connected layers, as `decoder_mlp_layers` says."""

    def __init__(self, cfg: Any, decoder_input_size: int) -> None:
        super().__init__(cfg)
        self.mlp = Mlp(decoder_input_size, cfg.decoder_mlp_layers, cfg.nonlinearity)
        self.decoder_out_size = cfg.decoder_mlp_layers[-1] if cfg.decoder_mlp_layers else decoder_input_size

    def forward(self, core_output: Tensor) -> Tensor:
        """Decode `[N, input_size]`."""
        output: Tensor = self.mlp(core_output)
        return output

    def get_out_size(self) -> int:
        """Return the width of the output."""
        return int(self.decoder_out_size)


def options_of(part: Callable[..., Options], cfg: Any) -> Options:
    """Return a part of the options of a run; what is not said has the flags' own defaults.

    Args:
        part: Its class.
        cfg: All options, as Sample Factory's code reads them.
    """
    names = [field.name for field in fields(cast("Any", part)) if field.name in cfg]
    return part(**{name: tuple(cfg[name]) if isinstance(cfg[name], list) else cfg[name] for name in names})


def model_options_of(cfg: Any) -> ModelOptions:
    """Return the options of a network's layers."""
    return options_of(ModelOptions, cfg)


def make_img_encoder(cfg: Any, obs_space: spaces.Space[Any]) -> ImageEncoder:
    """Make an encoder of images `[channels, height, width]`."""
    return ImageEncoder(cfg, obs_space)


def _encoder_of_entry(cfg: Any, key: str, space: spaces.Space[Any]) -> MlpEncoder | ImageEncoder:
    """Make the encoder of an entry of an observation.

    Raises:
        ConfigError: It is an image without pixels, or with its channels behind them.
    """
    if not is_image(space, cfg.encoder_conv_architecture):
        return MlpEncoder(cfg, space)
    if problem := find_problem_of_image(key, space, cfg.encoder_conv_architecture):
        raise ConfigError([problem])
    return ImageEncoder(cfg, space)


def default_make_encoder_func(cfg: Any, obs_space: spaces.Dict) -> Encoder:
    """Make the encoder that a run has where none is registered."""
    return MultiInputEncoder(cfg, obs_space)


def default_make_core_func(cfg: Any, core_input_size: int) -> ModelCore:
    """Make the core that a run has where none is registered."""
    return ModelCoreRNN(cfg, core_input_size) if cfg.use_rnn else ModelCoreIdentity(cfg, core_input_size)


def default_make_decoder_func(cfg: Any, core_input_size: int) -> Decoder:
    """Make the decoder that a run has where none is registered."""
    return MlpDecoder(cfg, core_input_size)


def nonlinearity(cfg: Any, inplace: bool = False) -> nn.Module:
    """Make the activation function that `nonlinearity` names: torch's own, which `torch.jit` understands."""
    if cfg.nonlinearity == "tanh":
        return nn.Tanh()
    return nn.ReLU(inplace=inplace) if cfg.nonlinearity == "relu" else nn.ELU(inplace=inplace)


def fc_layer(in_features: int, out_features: int, bias: bool = True, spec_norm: bool = False) -> nn.Module:
    """Make a fully connected layer, perhaps with its spectral norm divided out."""
    layer = nn.Linear(in_features, out_features, bias)
    return nn.utils.parametrizations.spectral_norm(layer) if spec_norm else layer


def create_mlp(layer_sizes: Sequence[int], input_size: int, activation: nn.Module) -> nn.Module:
    """Make fully connected layers with an activation after each; without layers, the identity."""
    widths = [input_size, *layer_sizes]
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths, layer_sizes, strict=False):
        layers += [nn.Linear(inputs, outputs), activation]
    return nn.Sequential(*layers) if layers else nn.Identity()


def calc_num_elements(module: nn.Module, module_input_shape: Sequence[int]) -> int:
    """Return how many numbers a module makes of one input of a shape."""
    with torch.no_grad():
        outputs: Tensor = module(torch.zeros(1, *module_input_shape))
    return outputs.numel()


def model_device(model: nn.Module) -> torch.device | None:
    """Return where a module's parameters are; None: it has none."""
    return next((parameter.device for parameter in model.parameters()), None)


def orthogonal_init(module: nn.Module, gain: float = 1.0) -> nn.Module:
    """Draw the weights of a linear or convolutional layer as an orthogonal matrix; others stay as they are."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.orthogonal_(module.weight, gain=gain)
        _zero_bias(module)
    return module


def he_normal_init(module: nn.Module) -> nn.Module:
    """Draw the weights of a linear or convolutional layer as He et al. (2015) do; others stay as they are."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
        _zero_bias(module)
    return module


def _zero_bias(layer: nn.Linear | nn.Conv2d) -> None:
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
