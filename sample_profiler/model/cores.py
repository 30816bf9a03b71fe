"""Owns what stands between encoder and decoder: nothing, or a recurrent network that remembers an episode.

The state of one agent is one flat vector, whatever the network: layer after layer, of an LSTM the hidden state of a
layer and then its cell state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from sample_profiler.config import ModelOptions
from sample_profiler.model.fragments import EpisodeFragments
from sample_profiler.model.gru import GruWeights, PackedGruWeights, gru_layer
from sample_profiler.model.linear import can_pack

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
        self._packed: list[PackedGruWeights] | None = None
        self.output_size = options.rnn_size
        self.state_size = options.rnn_size * options.rnn_num_layers * (2 if self._is_lstm else 1)

    def pack(self) -> None:
        """Packs the weights for inference; after each change of them again."""
        if self._computes_itself(self._weights()[0].hidden):
            self._packed = [PackedGruWeights.of(weights) for weights in self._weights()]

    def step(self, head: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Goes one step with N agents.

        Args:
            head: ``[N, E]``.
            state: ``[N, state_size]``.

        Returns:
            Output ``[N, output_size]`` and next state ``[N, state_size]``.
        """
        if self._computes_itself(head):
            layers = self._layers(head, self._unpack_state(state), [len(head)])
            return layers[-1], self._pack_state(torch.stack(layers))
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
        packed = fragments.pack(head)
        if self._computes_itself(head):
            output = self._layers(packed.data, states, fragments.batch_sizes.tolist())[-1]
            return fragments.unpack(output, len(head))
        output, _ = self.rnn(packed, states)
        return fragments.unpack(output.data, len(head))

    def _computes_itself(self, values: Tensor) -> bool:
        """Tells whether this is a GRU on a processor, which :mod:`sample_profiler.model.gru` computes."""
        return not self._is_lstm and can_pack(values) and not torch.compiler.is_compiling()

    def _layers(self, rows: Tensor, states: Tensor | tuple[Tensor, Tensor], batch_sizes: Sequence[int]) -> list[Tensor]:
        """Returns the states of each layer after each step, ``[P, rnn_size]``; see :func:`gru_layer`."""
        assert isinstance(states, Tensor)
        outputs = []
        for layer, weights in enumerate(self._weights()):
            rows = gru_layer(rows, states[layer], weights, batch_sizes, self._packed[layer] if self._packed else None)
            outputs.append(rows)
        return outputs

    def _weights(self) -> list[GruWeights]:
        return [
            GruWeights(
                *(getattr(self.rnn, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            )
            for layer in range(self._num_layers)
        ]

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
