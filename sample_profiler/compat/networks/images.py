"""Owns what Sample Factory's code builds its own encoders of images from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from sample_profiler.compat.networks.parts import calc_num_elements, create_mlp, nonlinearity
from sample_profiler.errors import ModelError

__all__ = ["ConvEncoderImpl", "ResBlock"]

_POOLING = "maxpool_2x2"


class ConvEncoderImpl(nn.Module):
    """Convolutions, then fully connected layers; `torch.jit.script` understands it.

    Args:
        obs_shape: Of an image, `[channels, height, width]`.
        conv_filters: One after another: channels in and out, kernel size, stride; or `"maxpool_2x2"`.
        extra_mlp_layers: Widths of the layers behind them.
        activation: After each.

    Attributes:
        conv_head_out_size: Numbers that the convolutions make of an image.

    Raises:
        ModelError: There is no such layer.
    """

    def __init__(
        self, obs_shape: Sequence[int], conv_filters: Sequence[Any], extra_mlp_layers: Sequence[int], activation: Any
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for each in conv_filters:
            if each == _POOLING:
                layers.append(nn.MaxPool2d(2))
            elif isinstance(each, Sequence) and not isinstance(each, str):
                channels_in, channels_out, size, stride = each
                layers += [nn.Conv2d(channels_in, channels_out, size, stride), activation]
            else:
                raise ModelError(f"a convolution is {each!r}: it is [channels in, out, size, stride] or {_POOLING!r}")
        self.conv_head = nn.Sequential(*layers)
        self.conv_head_out_size = calc_num_elements(self.conv_head, obs_shape)
        self.mlp_layers = create_mlp(extra_mlp_layers, self.conv_head_out_size, activation)

    def forward(self, obs: Tensor) -> Tensor:
        """Encode `[N, channels, height, width]`."""
        encoding: Tensor = self.mlp_layers(self.conv_head(obs).reshape(-1, self.conv_head_out_size))
        return encoding


class ResBlock(nn.Module):
    """A residual block of two convolutions that keep height and width (He et al. 2016, arXiv:1603.05027).

    Args:
        cfg: Options, with `nonlinearity`.
        input_ch: Channels in; as many as out.
        output_ch: Channels out.
    """

    def __init__(self, cfg: Any, input_ch: int, output_ch: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels in (input_ch, output_ch):
            layers += [nonlinearity(cfg), nn.Conv2d(channels, output_ch, kernel_size=3, padding=1)]
        self.res_block_core = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions make of `[N, channels, height, width]` to it."""
        added: Tensor = self.res_block_core(x) + x
        return added
