"""Options of the optimizer and of the learning-rate schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import option


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions:
    """Optimizer."""

    optimizer: Literal["adam", "lamb"] = "adam"
    """Optimization algorithm; lamb, for large batches, takes steps of each layer in proportion to its weights."""

    adam_eps: float = option(1e-6, above=0)
    """Adam's epsilon; small values need accurate second moments."""

    adam_beta1: float = option(0.9, minimum=0, below=1)
    """Adam's decay of the mean of gradients."""

    adam_beta2: float = option(0.999, minimum=0, below=1)
    """Adam's decay of the mean of squared gradients."""

    max_grad_norm: float = option(4.0, minimum=0)
    """Largest L2 norm of the gradient of all parameters; 0 leaves gradients as they are."""

    learning_rate: float = option(1e-4, above=0)
    """Learning rate; the first one where a schedule changes it."""

    lr_schedule: Literal["constant", "linear_decay", "kl_adaptive_minibatch", "kl_adaptive_epoch"] = "constant"
    """How the learning rate changes: not at all, linearly to lr_decay_end of it, or up and down to hold the KL
    divergence of each update near lr_schedule_kl_threshold: of the policy after each minibatch or each epoch from those
    that acted, measured by a forward pass over up to 1,024 of its steps."""

    lr_decay_steps: int = option(-1, minimum=1, also=-1)
    """Number of environment steps over which linear_decay goes down; -1: those of the run, train_for_env_steps, or
    where these are not given the seconds of train_for_seconds."""

    lr_decay_end: float = option(0.0, minimum=0, maximum=1)
    """Share of the learning rate that linear_decay comes to, and stays at from then on."""

    lr_schedule_kl_threshold: float = option(0.008, above=0)
    """KL divergence that the adaptive schedules aim at."""

    lr_adaptive_min: float = option(1e-6, above=0)
    """Smallest learning rate of the adaptive schedules."""

    lr_adaptive_max: float = option(1e-2, above=0)
    """Largest learning rate of the adaptive schedules."""
