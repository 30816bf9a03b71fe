"""Owns recurrent cores by Sample Factory's protocol: one `forward`, over a step or over packed sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sample_profiler.errors import ModelError
from sample_profiler.model.kernels.fragments import EpisodeFragments

__all__ = ["AdaptedCore", "run_layers", "run_sequences"]


class AdaptedCore(nn.Module):
    """Such a core, by the protocol of this package.

    Attributes:
        output_size: Width of the output.
        state_size: Width of one agent's state.
    """

    if TYPE_CHECKING:
        core: nn.Module

    def __init__(self, core: nn.Module, state_size: int) -> None:
        """Adapt a core.

        Args:
            core: Called as `core(head, states)`, with `[N, E]` or a `PackedSequence` of such, and states `[N, H]`;
                returns its output in the same form, and the next states.
            state_size: H.
        """
        super().__init__()
        self.core = core
        self.output_size = getattr(core, "output_size", None)
        self.state_size = state_size

    def step(self, head: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Go one step with N agents: `[N, E]` and `[N, state_size]` to `[N, output_size]` and the next states."""
        output, new_state = self.core(head, state)
        return output, new_state

    def sequence(self, head: Tensor, state: Tensor, starts_episode: Tensor) -> Tensor:
        """Go T steps with S agents, `[S, T, E]` to `[S, T, output_size]`, as :meth:`step` would one by one.

        Raises:
            ModelError: The core does not take packed sequences.
        """
        return run_sequences(self.core, head, state, starts_episode, f"core {type(self.core).__name__}")


def run_sequences(
    core: Callable[..., tuple[Any, Any]], head: Tensor, state: Tensor, starts_episode: Tensor, name: str
) -> Tensor:
    """Go T steps with S agents through what takes packed sequences.

    Args:
        core: Called as `core(sequences, states)`.
        head: `[S, T, E]`.
        state: `[S, H]`, before the first step.
        starts_episode: `[S, T]` bool, True where a step is the first of an episode.
        name: What to call it in errors.

    Returns:
        `[S, T, C]`.

    Raises:
        ModelError: It does not take packed sequences.
    """
    fragments = EpisodeFragments.from_starts(starts_episode)
    output, _ = core(fragments.pack(head), fragments.initial_states(state))
    if not isinstance(output, PackedSequence):
        raise ModelError(
            f"the registered {name} made a {type(output).__name__} of a PackedSequence: "
            "it has to take sequences as well as single steps, and return what it was given"
        )
    if output.sorted_indices is not None:  # it was packed anew: sequences of one length may be in another order
        output = pack_padded_sequence(*pad_packed_sequence(output))
    return fragments.unpack(output.data, len(head))


def unpacked_state(states: Tensor, num_layers: int) -> Tensor:
    """Return states `[N, layers * H]` as torch's layers take them, `[layers, N, H]`."""
    return states.view(len(states), num_layers, -1).transpose(0, 1).contiguous()


def packed_state(by_layer: Tensor) -> Tensor:
    """Return states `[layers, N, H]` as one vector for each agent, `[N, layers * H]`."""
    return by_layer.transpose(0, 1).flatten(1)


def run_layers(
    layers: nn.GRU | nn.LSTM, head: Tensor | PackedSequence, states: Tensor
) -> tuple[Tensor | PackedSequence, Tensor]:
    """Go through GRU or LSTM layers, a step or packed sequences at once.

    Args:
        layers: Of torch.
        head: `[N, E]`, or sequences of such.
        states: `[N, layers * H]`, of an LSTM `[N, layers * 2 * H]`: of each layer the hidden state, then the cell's.

    Returns:
        The output in the form of the input, and the next states.
    """
    inputs = head.unsqueeze(0) if isinstance(head, Tensor) else head
    by_layer = unpacked_state(states, layers.num_layers)
    if isinstance(layers, nn.LSTM):
        hidden, cell = by_layer.chunk(2, dim=2)
        output, both = layers(inputs, (hidden.contiguous(), cell.contiguous()))
        by_layer = torch.cat(both, dim=2)
    else:
        output, by_layer = layers(inputs, by_layer)
    return output.squeeze(0) if isinstance(output, Tensor) else output, packed_state(by_layer)
