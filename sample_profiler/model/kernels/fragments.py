"""Owns how a block of sequences is cut at the ends of episodes and packed for torch's recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from sample_profiler.model.kernels.linear import room_for

__all__ = ["EpisodeFragments"]


@dataclass(frozen=True)
class EpisodeFragments:
    """The pieces of S sequences of T steps that belong to one episode each, F in all, longest first.

    Attributes:
        order: ``[S * T]``, the step of the block at each place of the packed data: all first steps of fragments, then
            all second steps, and so on.
        inverse: ``[S * T]``, the place in the packed data of each step of the block.
        batch_sizes: Number of fragments that have a first, second, … step; on the CPU, as torch wants it.
        sequences: ``[F]``, the sequence that each fragment is a piece of.
        continues: ``[F, 1]`` bool, whether a fragment goes on with the episode that its sequence began with.
    """

    order: Tensor
    inverse: Tensor
    batch_sizes: Tensor
    sequences: Tensor
    continues: Tensor

    @staticmethod
    def from_starts(starts_episode: Tensor) -> EpisodeFragments:
        """Find the fragments.

        Args:
            starts_episode: ``[S, T]`` bool, True where a step is the first of an episode.
        """
        num_sequences, num_steps = starts_episode.shape
        # Small integer work with many dependent steps: on a GPU each of them would be a kernel of its own.
        starts = starts_episode.detach().cpu().bool().flatten()
        is_first = starts.clone()
        is_first[::num_steps] = True
        first_steps = is_first.nonzero().squeeze(1)
        num_fragments = len(first_steps)
        lengths = torch.diff(first_steps, append=torch.tensor([num_sequences * num_steps]))
        longest_first = torch.argsort(lengths, descending=True, stable=True)
        rank = invert_permutation(longest_first)

        position = torch.arange(num_sequences * num_steps) - first_steps.repeat_interleave(lengths)
        order = torch.argsort(position * num_fragments + rank.repeat_interleave(lengths))
        first_steps = first_steps[longest_first]
        device = starts_episode.device
        return EpisodeFragments(
            order=order.to(device),
            inverse=invert_permutation(order).to(device),
            batch_sizes=torch.bincount(position),
            sequences=(first_steps // num_steps).to(device),
            continues=(~starts[first_steps]).unsqueeze(1).to(device),
        )

    def pack(self, block: Tensor) -> PackedSequence:
        """Pack ``[S, T, E]``."""
        return PackedSequence(block.flatten(0, 1).index_select(0, self.order), self.batch_sizes)

    def unpack(self, packed: Tensor, num_sequences: int) -> Tensor:
        """Put packed data ``[S * T, …]`` back in order, ``[S, T, …]``."""
        return packed.index_select(0, self.inverse).view(num_sequences, -1, packed.shape[-1])

    def initial_states(self, states: Tensor) -> Tensor:
        """Return the states with which the fragments begin, ``[F, H]``: zero where an episode begins.

        Args:
            states: ``[S, H]``, with which the sequences begin.
        """
        num_fragments = len(self.sequences)
        num_more = room_for(num_fragments) - num_fragments
        sequences, continues = F.pad(self.sequences, (0, num_more)), F.pad(self.continues, (0, 0, 0, num_more))
        return torch.where(continues, states.index_select(0, sequences), 0.0)[:num_fragments]


def invert_permutation(permutation: Tensor) -> Tensor:
    """Return the permutation that undoes another."""
    inverse = torch.empty_like(permutation)
    inverse[permutation] = torch.arange(len(permutation), device=permutation.device)
    return inverse
