"""Owns what stands between encoder and decoder: nothing, or a recurrent network that remembers an episode.

The state of one agent is one flat vector, whatever the network: layer after layer, of an LSTM the hidden state of a
layer and then its cell state.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor, nn

from sample_profiler.config import ModelOptions
from sample_profiler.model.fragments import EpisodeFragments

__all__ = ["Core", "IdentityCore", "RecurrentCore", "make_core"]


class IdentityCore(nn.Module):
    """Remembers nothing; its state is one number that stays what it is."""

    state_size = 1

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.output_size = input_size

    def step(self, head: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns both as they are."""
        return head, state

    def sequence(self, head: Tensor, state: Tensor, starts_episode: Tensor) -> Tensor:  # noqa: ARG002
        """Returns the block as it is."""
        return head


class RecurrentCore(nn.Module):
    """GRU or LSTM layers.

    Attributes:
        output_size: Width of the output.
        state_size: Width of one agent's state.
    """

    def __init__(self, input_size: int, options: ModelOptions) -> None:
        super().__init__()
        self._is_lstm = options.rnn_type == "lstm"
        self._num_layers = options.rnn_num_layers
        layer_type = nn.LSTM if self._is_lstm else nn.GRU
        self.rnn: nn.GRU | nn.LSTM = layer_type(input_size, options.rnn_size, options.rnn_num_layers)
        self.output_size = options.rnn_size
        self.state_size = options.rnn_size * options.rnn_num_layers * (2 if self._is_lstm else 1)

    def step(self, head: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Goes one step with N agents.

        Args:
            head: ``[N, E]``.
            state: ``[N, state_size]``.

        Returns:
            Output ``[N, output_size]`` and next state ``[N, state_size]``.
        """
        output, new_state = self.rnn(head.unsqueeze(0), self._unpack_state(state))
        return output.squeeze(0), self._pack_state(new_state)

    def sequence(self, head: Tensor, state: Tensor, starts_episode: Tensor) -> Tensor:
        """Goes T steps with S agents, as :meth:`step` would one by one with states zeroed where episodes begin.

        Args:
            head: ``[S, T, E]``.
            state: ``[S, state_size]``, before the first step.
            starts_episode: ``[S, T]`` bool, True where a step is the first of an episode.

        Returns:
            ``[S, T, output_size]``.
        """
        fragments = EpisodeFragments.from_starts(starts_episode)
        states = self._unpack_state(fragments.initial_states(state))
        output, _ = self.rnn(fragments.pack(head), states)
        return fragments.unpack(output, len(head))

    def _unpack_state(self, state: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Turns ``[N, state_size]`` into what torch's layers take, ``[layers, N, rnn_size]`` or a pair of these."""
        by_layer = state.reshape(len(state), self._num_layers, -1).transpose(0, 1)
        if self._is_lstm:
            hidden, cell = by_layer.chunk(2, dim=2)
            return hidden.contiguous(), cell.contiguous()
        return by_layer.contiguous()

    def _pack_state(self, by_layer: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        layers: Tensor = by_layer if isinstance(by_layer, Tensor) else torch.cat(by_layer, dim=2)
        return layers.transpose(0, 1).flatten(1)


Core: TypeAlias = IdentityCore | RecurrentCore


def make_core(input_size: int, options: ModelOptions) -> Core:
    """Makes the core that ``use_rnn`` and ``rnn_type`` ask for."""
    return RecurrentCore(input_size, options) if options.use_rnn else IdentityCore(input_size)
