from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import ModelOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model.convolutions import CONVNETS
from sample_profiler.model.encoders import ConvEncoder, ObservationEncoder, VectorEncoder

DOOM = (3, 72, 128)


def box(*shape):
    return spaces.Box(-1, 1, shape, np.float32)


def picture(*shape):
    return spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize(
    ("architecture", "num_features"),
    [
        # 72x128 → (72-8)/4+1 = 17 x 31 → (17-4)/2+1 = 7 x 14 → (7-3)/2+1 = 3 x 6.
        ("convnet_simple", 128 * 3 * 6),
        # … 7 x 14 → 5 x 12.
        ("convnet_atari", 64 * 5 * 12),
        ("convnet_impala", 32 * 7 * 14),
        # Three times halved: 36x64, 18x32, 9x16.
        ("resnet_impala", 32 * 9 * 16),
    ],
)
def test_sizes_of_convolutional_encoders(architecture, num_features):
    bare = ConvEncoder(DOOM, ModelOptions(encoder_conv_architecture=architecture, encoder_conv_mlp_layers=()))
    assert bare.output_size == num_features
    assert bare(torch.randn(2, *DOOM)).shape == (2, num_features)
    full = ConvEncoder(DOOM, ModelOptions(encoder_conv_architecture=architecture, encoder_conv_mlp_layers=(20, 10)))
    assert full.output_size == 10
    assert full(torch.randn(2, *DOOM)).shape == (2, 10)


def test_odd_images_fit_the_residual_network():
    encoder = ConvEncoder((1, 13, 21), ModelOptions(encoder_conv_architecture="resnet_impala"))
    assert encoder(torch.randn(2, 1, 13, 21)).shape == (2, 512)


@pytest.mark.parametrize("nonlinearity", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("architecture", ["convnet_simple", "resnet_impala"])
def test_activations_in_place_leave_gradients_right(architecture, nonlinearity):
    options = ModelOptions(
        encoder_conv_architecture=architecture, encoder_conv_mlp_layers=(4,), nonlinearity=nonlinearity
    )
    encoder = ConvEncoder((1, 36, 36), options).double()
    image = torch.randn(1, 1, 36, 36, dtype=torch.float64)
    weight = encoder.layers[0].weight

    def loss():
        return encoder(image).square().sum()

    (gradient,) = torch.autograd.grad(loss(), weight)
    direction = torch.randn_like(weight)
    step = 1e-6
    with torch.no_grad():
        weight += step * direction
        above = loss()
        weight -= 2 * step * direction
        below = loss()
    assert ((above - below) / (2 * step)).item() == pytest.approx((gradient * direction).sum().item(), rel=1e-4)


def test_a_residual_block_without_weights_is_the_identity():
    encoder = ConvEncoder((2, 8, 8), ModelOptions(encoder_conv_architecture="resnet_impala", nonlinearity="relu"))
    block = encoder.layers[2]
    for parameter in block.parameters():
        torch.nn.init.zeros_(parameter)
    image = torch.randn(1, 16, 4, 4)
    assert torch.equal(block(image.clone()), image)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 4, 5)], ids=str)
def test_everything_but_images_is_flattened(shape):
    encoder = ObservationEncoder({"obs": box(*shape)}, ModelOptions(encoder_mlp_layers=(7, 6)))
    assert isinstance(encoder.encoders[0], VectorEncoder)
    assert encoder({"obs": torch.randn(3, *shape)}).shape == (3, 6)


def test_entries_of_an_observation_stand_side_by_side_in_the_order_of_their_names():
    space = {"b": box(*DOOM), "a.b": box(4), "type": spaces.Discrete(3)}
    encoder = ObservationEncoder(space, ModelOptions(encoder_mlp_layers=(5,), encoder_conv_mlp_layers=(6,)))
    observations = {"type": torch.randn(2, 3), "a.b": torch.randn(2, 4), "b": torch.randn(2, *DOOM)}
    encoding = encoder(observations)
    assert encoder.output_size == 5 + 6 + 5
    expected = [part(observations[key]) for key, part in zip(("a.b", "b", "type"), encoder.encoders, strict=True)]
    assert torch.equal(encoding, torch.cat(expected, dim=1))


def test_without_layers_a_vector_passes_as_it_is():
    encoder = ObservationEncoder({"obs": box(4)}, ModelOptions(encoder_mlp_layers=()))
    observation = torch.randn(2, 4)
    assert encoder.output_size == 4
    assert torch.equal(encoder({"obs": observation}), observation)


@pytest.mark.parametrize("architecture", CONVNETS)
@pytest.mark.parametrize("shape", [(84, 84, 3), (7, 7, 3), (10, 20, 1), (5, 5, 4)], ids=str)
def test_an_image_with_its_channels_behind_is_refused_by_name(architecture, shape):
    options = ModelOptions(encoder_conv_architecture=architecture)
    with pytest.raises(ConfigError, match=r"'screen' of shape \(.*move its channels to the front"):
        ObservationEncoder({"screen": picture(*shape)}, options)


@pytest.mark.parametrize("architecture", ["convnet_simple", "resnet_impala"])
@pytest.mark.parametrize("shape", [(0, 84, 84), (3, 0, 84), (3, 84, 0)], ids=str)
def test_an_image_without_pixels_is_refused_by_name(architecture, shape):
    options = ModelOptions(encoder_conv_architecture=architecture)
    with pytest.raises(ConfigError, match=r"'screen' of shape \(.*without pixels"):
        ObservationEncoder({"screen": picture(*shape)}, options)


SIZES = (*((side, side) for side in range(1, 41)), (10, 200), (200, 10), (1, 40), (35, 36), (3, 20), (84, 84))


@pytest.mark.parametrize("architecture", [*CONVNETS, "resnet_impala"])
def test_images_of_bytes_of_any_size_go_through_convolutions(architecture):
    options = ModelOptions(encoder_conv_architecture=architecture, encoder_conv_mlp_layers=(5,))
    for height, width in SIZES:
        encoder = ObservationEncoder({"obs": picture(3, height, width)}, options)
        assert isinstance(encoder.encoders[0], ConvEncoder)
        encoding = encoder({"obs": torch.randn(2, 3, height, width)})
        assert encoding.shape == (2, 5)
        encoding.sum().backward()
        assert all(parameter.grad is not None for parameter in encoder.parameters())


@pytest.mark.parametrize(
    ("architecture", "shape", "kernels", "strides", "size"),
    [
        # As they are: 36 → 8 → 3 → 1, 84 → 20 → 9 → 7.
        ("convnet_simple", (3, 36, 36), [(8, 8), (4, 4), (3, 3)], [(4, 4), (2, 2), (2, 2)], (1, 1)),
        ("convnet_atari", (4, 84, 84), [(8, 8), (4, 4), (3, 3)], [(4, 4), (2, 2), (1, 1)], (7, 7)),
        # One less, and the first has another kernel: 35 → 33 → 15 → 7.
        ("convnet_simple", (3, 35, 35), [(3, 3), (4, 4), (3, 3)], [(1, 1), (2, 2), (2, 2)], (7, 7)),
        # 10 → 8 → 3 → 1, and 9 → 7 → 5 → 2.
        ("convnet_simple", (3, 10, 10), [(3, 3), (4, 4), (3, 3)], [(1, 1), (2, 2), (2, 2)], (1, 1)),
        ("convnet_simple", (3, 9, 9), [(3, 3), (3, 3), (3, 3)], [(1, 1), (1, 1), (2, 2)], (2, 2)),
        ("convnet_simple", (3, 7, 7), [(3, 3), (3, 3), (3, 3)], [(1, 1), (1, 1), (2, 2)], (1, 1)),
        # 5 → 3 → 1 → 1, 4 → 2 → 1 → 1.
        ("convnet_simple", (3, 5, 5), [(3, 3), (3, 3), (1, 1)], [(1, 1)] * 3, (1, 1)),
        ("convnet_atari", (3, 4, 4), [(3, 3), (2, 2), (1, 1)], [(1, 1)] * 3, (1, 1)),
        ("convnet_impala", (3, 7, 7), [(3, 3), (4, 4)], [(1, 1), (2, 2)], (1, 1)),
        ("convnet_impala", (3, 1, 1), [(1, 1), (1, 1)], [(1, 1)] * 2, (1, 1)),
        # Each side by itself: 10 → 8 → 3 → 1, 200 → 49 → 23 → 11.
        ("convnet_simple", (3, 10, 200), [(3, 8), (4, 4), (3, 3)], [(1, 4), (2, 2), (2, 2)], (1, 11)),
    ],
)
def test_convolutions_are_fitted_to_small_images_from_the_first_on(architecture, shape, kernels, strides, size):
    bare = ConvEncoder(shape, ModelOptions(encoder_conv_architecture=architecture, encoder_conv_mlp_layers=()))
    layers = [layer for layer in bare.layers if isinstance(layer, torch.nn.Conv2d)]
    assert [layer.kernel_size for layer in layers] == kernels
    assert [layer.stride for layer in layers] == strides
    assert [layer.out_channels for layer in layers] == [channels for channels, _, _ in CONVNETS[architecture]]
    assert bare.output_size == layers[-1].out_channels * size[0] * size[1]


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 10, 10), (3, 35, 36)], ids=str)
def test_what_has_three_dimensions_and_is_no_image_is_flattened(shape):
    encoder = ObservationEncoder({"obs": box(*shape)}, ModelOptions(encoder_mlp_layers=(7, 6)))
    assert isinstance(encoder.encoders[0], VectorEncoder)
    assert encoder({"obs": torch.randn(3, *shape)}).shape == (3, 6)


@pytest.mark.parametrize("space", [box(3, 36, 36), spaces.Box(0, 255, (3, 36, 36), np.uint8)], ids=str)
def test_an_image_of_the_smallest_size_goes_through_convolutions(space):
    encoder = ObservationEncoder({"obs": space}, ModelOptions(encoder_conv_mlp_layers=(6,)))
    assert isinstance(encoder.encoders[0], ConvEncoder)
    assert encoder({"obs": torch.randn(3, *space.shape)}).shape == (3, 6)
