"""What frameworks are to reach, each with the flags that its own authors give for it.

Of Stable-Baselines3 and SBX these are RL Zoo's hyperparameters (`hyperparams/ppo.yml`, of the environments' versions at
that time), of Sample Factory the command in `sf_examples/train_gym_env.py` and the defaults of its MuJoCo family, of
CleanRL the defaults of its scripts. Ours are the defaults of Gymnasium's environments, and for MuJoCo's those of the
family and the flags in docs/learning.md. A framework whose authors give nothing for a task has no part in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.learning import TASKS as LEARNED
from benchmarks.learning import LearningTask

__all__ = ["FRAMEWORKS", "RETURN_TASKS", "ReturnTask"]

FRAMEWORKS = ("ours", "sb3", "sbx", "sample_factory", "cleanrl")


@dataclass(frozen=True)
class ReturnTask:
    """What is to be reached.

    Attributes:
        ours: our training script, its flags, and the mean return of the latest 100 episodes that is good enough.
        seconds: from the start of a process after which it is given up.
        peers: the words that follow seed and library in the command of each peer's program.
    """

    ours: LearningTask
    seconds: float
    peers: dict[str, tuple[str, ...]]

    def flags_of(self, framework: str) -> tuple[str, ...]:
        """Return what a framework is started with, but for seed and place."""
        return (self.ours.module, *self.ours.flags) if framework == "ours" else self.peers[framework]


def _zoo(**settings: Any) -> dict[str, tuple[str, ...]]:
    """Return both libraries with hyperparameters of RL Zoo."""
    words = (json.dumps(settings),)
    return {"sb3": ("stable_baselines3", *words), "sbx": ("sbx", *words)}


_WIDE_RELU = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": "ReLU",
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
_GYM = "sf_examples.gym.train_gym"
_MUJOCO = "sf_examples.mujoco.train_mujoco"
_CLEANRL_MUJOCO = "cleanrl/ppo_continuous_action.py"

RETURN_TASKS = {
    "cartpole": ReturnTask(
        LEARNED["cartpole"],
        60,
        {
            **_zoo(
                env="CartPole-v1", n_envs=8, n_timesteps=100_000, n_steps=32, batch_size=256, gae_lambda=0.8,
                gamma=0.98, n_epochs=20, ent_coef=0.0, learning_rate="lin_0.001", clip_range="lin_0.2",
            ),
            "sample_factory": (
                *("gym", "--algo=APPO", "--use_rnn=False", "--num_envs_per_worker=20", "--policy_workers_per_policy=2"),
                *("--recurrence=1", "--with_vtrace=False", "--batch_size=512", "--reward_scale=0.1"),
                *("--save_every_sec=10", "--experiment_summaries_interval=10", "--env=CartPole-v1", "--device=cpu"),
            ),
            "cleanrl": ("cleanrl/ppo.py", "--env-id=CartPole-v1"),
        },
    ),
    "pendulum": ReturnTask(
        LearningTask(_GYM, ("--env=Pendulum-v1", "--train_for_env_steps=1000000"), -250),
        300,
        _zoo(
            env="Pendulum-v1", n_envs=4, n_timesteps=100_000, n_steps=1024, gae_lambda=0.95, gamma=0.9, n_epochs=10,
            ent_coef=0.0, learning_rate=1e-3, clip_range=0.2, use_sde=True, sde_sample_freq=4,
        ),
    ),
    "lunarlander": ReturnTask(
        LearningTask(_GYM, ("--env=LunarLander-v3", "--train_for_env_steps=1500000"), 200),
        900,
        _zoo(
            env="LunarLander-v3", n_envs=16, n_timesteps=1_000_000, n_steps=1024, batch_size=64, gae_lambda=0.98,
            gamma=0.999, n_epochs=4, ent_coef=0.01,
        ),
    ),
    "acrobot": ReturnTask(
        LearningTask(_GYM, ("--env=Acrobot-v1", "--train_for_env_steps=1000000"), -100),
        300,
        {
            **_zoo(
                env="Acrobot-v1", normalize=True, n_envs=16, n_timesteps=1_000_000, n_steps=256, gae_lambda=0.94,
                gamma=0.99, n_epochs=4, ent_coef=0.0,
            ),
            "cleanrl": ("cleanrl/ppo.py", "--env-id=Acrobot-v1"),
        },
    ),
    "halfcheetah": ReturnTask(
        LEARNED["halfcheetah"],
        1800,
        {
            **_zoo(
                env="HalfCheetah-v5", normalize=True, n_envs=1, n_timesteps=1_000_000, batch_size=64, n_steps=512,
                gamma=0.98, learning_rate=2.0633e-05, ent_coef=0.000401762, clip_range=0.1, n_epochs=20,
                gae_lambda=0.92, max_grad_norm=0.8, vf_coef=0.58096, policy_kwargs=_WIDE_RELU,
            ),
            "sample_factory": ("mujoco", "--env=mujoco_halfcheetah", "--device=cpu"),
            "cleanrl": (_CLEANRL_MUJOCO, "--env-id=HalfCheetah-v4"),
        },
    ),
    "hopper": ReturnTask(
        LearningTask(_MUJOCO, ("--env=mujoco_hopper", "--num_epochs=6", "--train_for_env_steps=1000000"), 2000),
        1800,
        {
            **_zoo(
                env="Hopper-v5", normalize=True, n_envs=1, n_timesteps=1_000_000, batch_size=32, n_steps=512,
                gamma=0.999, learning_rate=9.80828e-05, ent_coef=0.00229519, clip_range=0.2, n_epochs=5,
                gae_lambda=0.99, max_grad_norm=0.7, vf_coef=0.835671, policy_kwargs=_WIDE_RELU,
            ),
            "sample_factory": ("mujoco", "--env=mujoco_hopper", "--device=cpu"),
            "cleanrl": (_CLEANRL_MUJOCO, "--env-id=Hopper-v4"),
        },
    ),
    "walker2d": ReturnTask(
        LearningTask(_MUJOCO, ("--env=mujoco_walker", "--num_epochs=6", "--train_for_env_steps=1000000"), 2000),
        1800,
        {
            **_zoo(
                env="Walker2d-v5", normalize=True, n_envs=1, n_timesteps=1_000_000, batch_size=32, n_steps=512,
                gamma=0.99, learning_rate=5.05041e-05, ent_coef=0.000585045, clip_range=0.1, n_epochs=20,
                gae_lambda=0.95, max_grad_norm=1, vf_coef=0.871923, policy_kwargs=_WIDE_RELU,
            ),
            "sample_factory": ("mujoco", "--env=mujoco_walker", "--device=cpu"),
            "cleanrl": (_CLEANRL_MUJOCO, "--env-id=Walker2d-v4"),
        },
    ),
}  # fmt: skip
