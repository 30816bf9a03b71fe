"""Flags of Brax's environments, and what the family has instead of the flags' own defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config import option

__all__ = ["BRAX_DEFAULTS", "BraxOptions"]

BRAX_DEFAULTS = {
    "adaptive_stddev": False,
    "async_rl": False,
    "batch_size": 32768,
    "batched_sampling": True,
    "encoder_mlp_layers": (256, 128, 64),
    "exploration_loss_coeff": 0.0,
    "gae_lambda": 0.95,
    "gamma": 0.99,
    "hang_timeout": 600.0,  # a simulator compiles its first reset and step, for minutes where processors are short
    "learning_rate": 3e-4,
    "lr_adaptive_max": 2e-3,
    "lr_schedule": "kl_adaptive_epoch",
    "lr_schedule_kl_threshold": 0.008,
    "max_grad_norm": 1.0,
    "nonlinearity": "elu",
    "num_batches_per_epoch": 2,
    "num_envs_per_worker": 1,
    "num_epochs": 5,
    "num_workers": 1,
    "policy_initialization": "torch_default",
    "ppo_clip_ratio": 0.2,
    "reward_scale": 0.01,
    "rollout": 32,
    "save_best_after": 5_000_000,
    "serial_mode": True,
    "shuffle_minibatches": False,
    "train_for_env_steps": 100_000_000,
    "use_rnn": False,
    "value_bootstrap": True,
    "value_loss_coeff": 2.0,
    "with_vtrace": False,
    "worker_num_splits": 1,
}
"""What the family has instead of the flags' own defaults."""


@dataclass(frozen=True, kw_only=True)
class BraxOptions:
    """Brax."""

    env_agents: int = option(2048, minimum=1)
    """Number of environments in the vector."""

    brax_backend: Literal["spring", "positional", "generalized", "mjx"] = "spring"
    """Physics: MuJoCo's MJX, or one of Brax's own, of which spring is the quickest."""

    clamp_actions: bool = True
    """Clip actions to -1 to 1; without, environments get what the policy drew, whose size may be part of the reward."""

    clamp_rew_obs: bool = False
    """Clip rewards and observations to -10 to 10."""

    brax_render_res: int = option(200, minimum=1)
    """Height and width of pictures, of which there are none here."""
