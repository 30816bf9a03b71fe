"""Trains a policy for the cluster tool: ``python -m sf_examples.petri_net.train_petri_net``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler.envs import register_env
from sf_examples.petri_net.petri_net_env import PetriNetOptions, make_petri_net_env

__all__ = ["PETRI_NET_DEFAULTS", "main"]

PETRI_NET_DEFAULTS = {
    "env": "petri_net",
    "experiment": "petri_net",
    "use_rnn": False,
    "encoder_mlp_layers": (128, 128),
    "normalize_input": False,
    "learning_rate": 3e-4,
    "gamma": 0.995,
    "train_for_env_steps": 500_000,
}

register_env("petri_net", make_petri_net_env)


def main(argv: Sequence[str] | None = None) -> int:
    """Train; flags on the command line replace the defaults above."""
    from sample_profiler.cli.train import train

    return train(argv, extra_parts=(PetriNetOptions,), defaults=PETRI_NET_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
