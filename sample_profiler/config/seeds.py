"""Owns the seeds of a run: one is given or drawn, and all others follow from it."""

from __future__ import annotations

import random

import numpy as np

__all__ = ["derive_seed", "draw_seed"]


def draw_seed() -> int:
    """Draw a seed that differs from run to run."""
    return random.SystemRandom().randrange(2**31)


def derive_seed(seed: int, *path: int) -> int:
    """Derive independent seeds, below 2**31, from the one seed of a run: one for each `path` of numbers."""
    return int(np.random.SeedSequence(seed, spawn_key=path).generate_state(1)[0]) % 2**31
