"""Print what one minibatch of the ViZDoom network costs, by how it is cut into micro-batches and by threads.

2,048 steps of 3x72x128 bytes in 64 sequences of 32, convnet_simple, GRU 512. Training is normalization, forward and
backward, without the optimizer; ``split`` runs only the encoder in micro-batches, and core, losses and their backward
on the whole minibatch at once. Inference is normalization, one step and drawing actions, for 2,048 steps. The smallest
of several repeats is shown: everything that disturbs a run only makes it longer.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.model import PolicyNetwork, make_actor_critic
from sample_profiler.ppo import losses

NUM_SEQUENCES = 64
NUM_STEPS = 32
NUM_ROWS = NUM_SEQUENCES * NUM_STEPS
IMAGE_SHAPE = (3, 72, 128)
NUM_ACTIONS = 9
SEQUENCES_PER_MICRO_BATCH = (1, 2, 4, 8, 16, 64)
INFERENCE_BATCHES = (8, 16, 32, 64, 128, 256)

Precision = Callable[[], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True)
class Minibatch:
    """Steps as a learner has them, in the order of their sequences."""

    images: torch.Tensor
    states: torch.Tensor
    starts_episode: torch.Tensor
    actions: torch.Tensor
    old_parameters: torch.Tensor
    targets: torch.Tensor
    valid: torch.Tensor


def make_minibatch(state_size: int) -> Minibatch:
    """Make up a minibatch in which one step of 500 begins an episode."""
    return Minibatch(
        images=torch.randint(0, 256, (NUM_ROWS, *IMAGE_SHAPE), dtype=torch.uint8),
        states=torch.randn(NUM_SEQUENCES, state_size),
        starts_episode=torch.rand(NUM_SEQUENCES, NUM_STEPS) < 1 / 500,
        actions=torch.randint(0, NUM_ACTIONS, (NUM_ROWS, 1)),
        old_parameters=torch.randn(NUM_ROWS, NUM_ACTIONS),
        targets=torch.randn(NUM_ROWS),
        valid=torch.ones(NUM_ROWS),
    )


def make_network() -> PolicyNetwork:
    """Make the network of the ViZDoom benchmark."""
    return make_actor_critic(
        ModelOptions(),
        ObservationOptions(obs_scale=255.0),
        spaces.Dict({"obs": spaces.Box(0, 255, IMAGE_SHAPE, np.uint8)}),
        spaces.Discrete(NUM_ACTIONS),
    )


def loss_of(network: PolicyNetwork, batch: Minibatch, head: torch.Tensor, sequences: slice) -> torch.Tensor:
    """Return PPO's loss over some sequences, from their encodings."""
    rows = slice(sequences.start * NUM_STEPS, sequences.stop * NUM_STEPS)
    block = head.view(-1, NUM_STEPS, head.shape[-1])
    core = network.forward_core_sequence(block, batch.states[sequences], batch.starts_episode[sequences])
    parameters, values = network.forward_tail(core.flatten(0, 1))
    new, old = (network.action_distribution(p) for p in (parameters, batch.old_parameters[rows]))
    actions, valid, targets = batch.actions[rows], batch.valid[rows], batch.targets[rows]
    ratio = losses.probability_ratio(new.log_prob(actions), old.log_prob(actions))
    total = losses.policy_loss(ratio, targets, valid, 0.1)
    total = total + losses.value_loss(values, targets, targets, valid, 0.2)
    total = total + losses.exploration_loss(new, valid, "symmetric_kl")
    return total / NUM_ROWS


def micro_batches(num_sequences: int) -> Iterable[slice]:
    """Yield the sequences of each micro-batch."""
    return (slice(start, start + num_sequences) for start in range(0, NUM_SEQUENCES, num_sequences))


def encode(network: PolicyNetwork, batch: Minibatch, sequences: slice) -> torch.Tensor:
    """Return the encodings of some sequences."""
    rows = slice(sequences.start * NUM_STEPS, sequences.stop * NUM_STEPS)
    return network.forward_head(network.normalize({"obs": batch.images[rows]}))


def train_in_micro_batches(network: PolicyNetwork, batch: Minibatch, num_sequences: int, precision: Precision) -> None:
    """Take every micro-batch through the whole network and back."""
    network.zero_grad()
    for sequences in micro_batches(num_sequences):
        with precision():
            loss = loss_of(network, batch, encode(network, batch, sequences), sequences)
        torch.autograd.backward(loss)


def train_split_at_the_head(network: PolicyNetwork, batch: Minibatch, num_sequences: int, precision: Precision) -> None:
    """Take micro-batches through the encoder, the whole minibatch through the rest, and go back the same way."""
    network.zero_grad()
    pieces = list(micro_batches(num_sequences))
    with precision():
        encodings = [encode(network, batch, sequences) for sequences in pieces]
        head = torch.cat(encodings).detach().requires_grad_()
        loss = loss_of(network, batch, head, slice(0, NUM_SEQUENCES))
    torch.autograd.backward(loss)
    assert head.grad is not None
    # Goes through the encodings from the latest to the first, whose activations are the likeliest to be in the cache.
    torch.autograd.backward(encodings, torch.split(head.grad, num_sequences * NUM_STEPS))


@torch.inference_mode()
def infer(network: PolicyNetwork, batch: Minibatch, num_rows: int, precision: Precision) -> None:
    """Draw actions for all steps of the minibatch."""
    states = torch.zeros(num_rows, network.state_size)
    generator = torch.Generator().manual_seed(0)
    for start in range(0, NUM_ROWS, num_rows):
        with precision():
            normalized = network.normalize({"obs": batch.images[start : start + num_rows]})
            parameters, _, _ = network(normalized, states)
        distribution = network.action_distribution(parameters)
        distribution.draw(generator)


def measure(function: Callable[..., object], *arguments: object, repeats: int) -> tuple[float, float]:
    """Return the smallest wall time and processor time of some calls, in milliseconds."""
    walls, cores = [], []
    function(*arguments)
    for _ in range(repeats):
        wall, core = time.perf_counter(), time.process_time()
        function(*arguments)
        walls.append(time.perf_counter() - wall)
        cores.append(time.process_time() - core)
    return min(walls) * 1e3, min(cores) * 1e3


def main() -> None:
    """Measure and print one table for training and one for inference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads to try")
    parser.add_argument("--repeats", type=int, default=3, help="how often to measure each cell")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 where autocast does")
    arguments = parser.parse_args()

    def precision() -> contextlib.AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16) if arguments.bf16 else contextlib.nullcontext()

    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    network = make_network()
    batch = make_minibatch(network.state_size)
    network.update_normalizer({"obs": batch.images})
    tables = [
        ("training", SEQUENCES_PER_MICRO_BATCH, NUM_STEPS, train_in_micro_batches),
        ("training, split", SEQUENCES_PER_MICRO_BATCH, NUM_STEPS, train_split_at_the_head),
        ("inference", INFERENCE_BATCHES, 1, infer),
    ]
    print(f"{NUM_ROWS} steps, {'bfloat16' if arguments.bf16 else 'float32'}, ms: wall (all cores together)")
    for name, sizes, steps_per_size, function in tables:
        print(f"\n{name + ', steps at once':30}" + "".join(f"{size * steps_per_size:>16}" for size in sizes))
        for num_threads in arguments.threads:
            torch.set_num_threads(num_threads)
            cells = [measure(function, network, batch, size, precision, repeats=arguments.repeats) for size in sizes]
            row = "".join(f"{f'{wall:.0f} ({core:.0f})':>16}" for wall, core in cells)
            print(f"{f'{num_threads} threads':30}{row}", flush=True)
    normalization = measure(network.normalize, {"obs": batch.images}, repeats=arguments.repeats)
    statistics = measure(network.update_normalizer, {"obs": batch.images}, repeats=arguments.repeats)
    print(f"\nnormalization of all steps: {normalization[0]:.0f}; update of its statistics: {statistics[0]:.0f}")


if __name__ == "__main__":
    main()
