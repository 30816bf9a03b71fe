"""Options of the actor-critic network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import option


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Model."""

    encoder_mlp_layers: tuple[int, ...] = option((512, 512), minimum=1, maximum=65_536)
    """Widths of the fully connected layers that encode vector observations."""

    encoder_conv_architecture: Literal["convnet_simple", "convnet_impala", "convnet_atari", "resnet_impala"] = (
        "convnet_simple"
    )
    """Convolutional network that encodes image observations: convnet_simple and convnet_atari are made for images of
    36x36 pixels and more, convnet_impala of 20x20, and get smaller kernels and strides for smaller images of bytes;
    resnet_impala takes any size."""

    encoder_conv_mlp_layers: tuple[int, ...] = option((512,), minimum=1, maximum=65_536)
    """Widths of the fully connected layers after the convolutions."""

    use_rnn: bool = True
    """Give the policy a memory: a recurrent core between encoder and decoder."""

    rnn_size: int = option(512, minimum=1, maximum=65_536)
    """Width of the recurrent core."""

    rnn_type: Literal["gru", "lstm"] = "gru"
    """Cell of the recurrent core."""

    rnn_num_layers: int = option(1, minimum=1, maximum=100)
    """Number of layers of the recurrent core."""

    decoder_mlp_layers: tuple[int, ...] = option((), minimum=1, maximum=65_536)
    """Widths of the fully connected layers between core and outputs; none by default."""

    nonlinearity: Literal["elu", "relu", "tanh"] = "elu"
    """Activation function between layers."""

    policy_initialization: Literal["orthogonal", "xavier_uniform", "torch_default"] = "orthogonal"
    """How weights are initialized."""

    policy_init_gain: float = option(1.0, above=0)
    """Factor applied to initial weights; torch_default does not use it."""

    action_init_gain: float = option(1.0, above=0)
    """Factor applied to the initial weights of the layers that decide on actions, beside policy_init_gain. Where it is
    small, such as 0.01, the first policy does the same in all states: discrete actions are all as probable, continuous
    ones have means of about 0."""

    actor_critic_share_weights: bool = True
    """One network for actor and critic; False gives each an encoder and a core of its own."""

    adaptive_stddev: bool = True
    """Continuous actions: the network decides the standard deviation; False learns one for all states."""

    continuous_tanh_scale: float = option(0.0, minimum=0)
    """Continuous actions: bound means to plus or minus this value with tanh; 0 leaves them unbounded."""

    initial_stddev: float = option(1.0, minimum=1e-4, maximum=1e4)
    """Continuous actions: standard deviation at the start of training."""

    @property
    def rnn_state_size(self) -> int:
        """Width of one agent's recurrent state vector; 1 for each network without an RNN, which stays unused."""
        size = 1
        if self.use_rnn:
            # An LSTM keeps a hidden state and a cell state.
            size = self.rnn_size * self.rnn_num_layers * (2 if self.rnn_type == "lstm" else 1)
        return size if self.actor_critic_share_weights else 2 * size
