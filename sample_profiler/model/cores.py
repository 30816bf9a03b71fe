"""Owns what stands between encoder and decoder: nothing, or a recurrent network that remembers an episode.

The state of one agent is one flat vector, whatever the network: layer after layer, of an LSTM the hidden state of a
layer and then its cell state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from sample_profiler.config import ModelOptions
from sample_profiler.model.kernels.fragments import EpisodeFragments
from sample_profiler.model.kernels.gru import GruWeights, PackedGruWeights, gru_layer, make_kernels
from sample_profiler.model.kernels.linear import can_multiply

__all__ = ["Core", "IdentityCore", "RecurrentCore", "make_core"]


class IdentityCore(nn.Module):
    """Remembers nothing; its state is one number that stays what it is."""

    state_size = 1

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.output_size = input_size

    def step(self, head: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return both as they are."""
        return head, state

    def sequence(self, head: Tensor, state: Tensor, starts_episode: Tensor) -> Tensor:  # noqa: ARG002
        """Return the block as it is."""
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
        """Pack the weights for inference; after each change of them again."""
        if self._computes_itself(self.rnn.all_weights[0][0]):
            self._packed = [PackedGruWeights.of(weights) for weights in self._weights()]

    def prepare_sequences(self, most: int) -> None:
        """Get ready for :meth:`sequence` with up to so many fragments of episodes."""
        weight = self.rnn.all_weights[0][0]
        if self._computes_itself(weight):
            for weights in self._weights():
                make_kernels(weights.to(self._computing_dtype(weight)), most)

    def step(self, head: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Go one step with N agents.

        Args:
            head: ``[N, E]``.
            state: ``[N, state_size]``.

        Returns:
            Output ``[N, output_size]`` and next state ``[N, state_size]``.
        """
        if self._computes_itself(head):
            layers = self._layers(head, state, [len(head)])
            return layers[-1], self._pack_state(torch.stack(layers))
        output, new_state = self.rnn(head.unsqueeze(0), self._unpack_state(state))
        return output.squeeze(0), self._pack_state(new_state)

    def sequence(self, head: Tensor, state: Tensor, starts_episode: Tensor) -> Tensor:
        """Go T steps with S agents, as :meth:`step` would one by one with states zeroed where episodes begin.

        Args:
            head: ``[S, T, E]``.
            state: ``[S, state_size]``, before the first step.
            starts_episode: ``[S, T]`` bool, True where a step is the first of an episode.

        Returns:
            ``[S, T, output_size]``.
        """
        fragments = EpisodeFragments.from_starts(starts_episode)
        states, packed = fragments.initial_states(state), fragments.pack(head)
        if self._computes_itself(head):
            outputs = self._layers(packed.data, states, fragments.batch_sizes.tolist())[-1]
            return fragments.unpack(outputs, len(head))
        output, _ = self.rnn(packed, self._unpack_state(states))
        return fragments.unpack(output.data, len(head))

    def _computes_itself(self, values: Tensor) -> bool:
        """Tell whether this is a GRU on a processor, which :mod:`sample_profiler.model.kernels.gru` computes."""
        is_possible = not self._is_lstm and not torch.compiler.is_compiling()
        return is_possible and can_multiply(values, self._computing_dtype(values))

    def _computing_dtype(self, values: Tensor) -> torch.dtype:
        if torch.is_autocast_enabled(values.device.type):
            return torch.get_autocast_dtype(values.device.type)
        return self.rnn.all_weights[0][0].dtype

    def _layers(self, rows: Tensor, states: Tensor, batch_sizes: Sequence[int]) -> list[Tensor]:
        """Return the states of each layer after each step, ``[P, rnn_size]``.

        Args:
            rows: ``[P, E]``, of sequences; see :func:`gru_layer`.
            states: ``[S, state_size]``, before the first step of each.
            batch_sizes: Number of sequences that have a first, second, … step.
        """
        dtype = self._computing_dtype(rows)
        rows, by_layer = rows.to(dtype), self._unpack_state(states.to(dtype))
        outputs = []
        with torch.autocast(rows.device.type, enabled=False):
            for layer, weights in enumerate(self._weights()):
                packed = self._packed[layer] if self._packed else None
                rows = gru_layer(rows, by_layer[layer], weights, batch_sizes, packed)
                outputs.append(rows)
        return outputs

    def _weights(self) -> list[GruWeights]:
        return [GruWeights(*weights) for weights in self.rnn.all_weights]

    def __getstate__(self) -> dict[str, Any]:
        # Packed weights can be neither copied nor pickled, and belong to the weights of one moment.
        return self.__dict__ | {"_packed": None}

    def _unpack_state(self, state: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Turn ``[N, state_size]`` into what torch's layers take, ``[layers, N, rnn_size]`` or a pair of these."""
        # Without the number of rows, which tracers would take for that of all calls.
        single = self._num_layers == 1
        by_layer = state.unsqueeze(0) if single else torch.stack(state.chunk(self._num_layers, dim=1))
        if self._is_lstm:
            hidden, cell = by_layer.chunk(2, dim=2)
            return hidden.contiguous(), cell.contiguous()
        return by_layer.contiguous()

    def _pack_state(self, by_layer: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        layers: Tensor = by_layer if isinstance(by_layer, Tensor) else torch.cat(by_layer, dim=2)
        return layers.squeeze(0) if self._num_layers == 1 else torch.cat(layers.unbind(0), dim=1)


Core: TypeAlias = IdentityCore | RecurrentCore


def make_core(input_size: int, options: ModelOptions) -> Core:
    """Make the core that ``use_rnn`` and ``rnn_type`` ask for."""
    return RecurrentCore(input_size, options) if options.use_rnn else IdentityCore(input_size)
