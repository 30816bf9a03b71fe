import pytest
import torch
from torch import nn

from sample_profiler.compat.networks.images import ConvEncoderImpl, ResBlock
from sample_profiler.compat.settings.arguments import default_cfg
from sample_profiler.errors import ModelError


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_an_encoder_of_convolutions_poolings_and_layers():
    encoder = ConvEncoderImpl((3, 20, 20), [[3, 8, 5, 1], "maxpool_2x2", (8, 4, 3, 2)], [16], nn.ReLU())
    assert encoder.conv_head_out_size == 4 * 3 * 3
    assert torch.jit.script(encoder)(torch.zeros(2, 3, 20, 20)).shape == (2, 16)
    with pytest.raises(ModelError, match="a convolution is 'maxpool_3x3'"):
        ConvEncoderImpl((3, 20, 20), ["maxpool_3x3"], [], nn.ReLU())


def test_a_residual_block_adds_to_what_it_is_given():
    block = ResBlock(default_cfg(), 4, 4)
    images = torch.randn(2, 4, 6, 5)
    torch.testing.assert_close(block(images) - images, block.res_block_core(images))
    for parameter in block.parameters():
        nn.init.zeros_(parameter)
    assert block(images).equal(images)
