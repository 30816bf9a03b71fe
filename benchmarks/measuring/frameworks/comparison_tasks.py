"""What the frameworks are compared on: the same work, in the flags of each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TASKS", "Arm", "Task"]

SCENARIO = "{scenario}"
"""Stands for the original's battle.cfg, which lies in the installation of Sample Factory."""


@dataclass(frozen=True)
class Arm:
    """One framework with one setting.

    Attributes:
        framework: "sample_factory", "sb3" or "own".
        flags: beside the task's.
    """

    framework: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """Work that is the same for all.

    Attributes:
        family: of the environment: "doom", "gym" or "mujoco".
        flags: that mean the same to Sample Factory and to us.
        arms: who does it, by name; the first is what the others are compared with.
        inference_rows: steps that inference takes through the network at once in our own run, for the limit.
        peer_env: gymnasium's id of the environment in Sample Factory's installation, where it is another than in ours
            and both are measured alone, too.
    """

    family: str
    flags: tuple[str, ...]
    arms: dict[str, Arm]
    inference_rows: int
    peer_env: str | None = None

    @property
    def env(self) -> str:
        """Name of the environment."""
        return next(flag.partition("=")[2] for flag in self.flags if flag.startswith("--env="))

    def flags_of(self, arm: str) -> list[str]:
        """Return what an arm is started with, but for where and how long."""
        setting = self.arms[arm]
        return [*setting.flags] if setting.framework == "sb3" else [*self.flags, *setting.flags]


_SAMPLE_FACTORY = Arm("sample_factory", ("--with_wandb=False",))
_SB3_SIZES = ("--n_envs=32", "--n_steps=64", "--batch_size=2048", "--n_epochs=1")
_BATTLE = f"--doom_scenario={SCENARIO}"  # what Sample Factory's doom_benchmark plays; ours has a scenario of its own

TASKS = {
    "doom": Task(
        family="doom",
        flags=(
            *(
                "--env=doom_benchmark",
                "--device=cpu",
                "--res_w=128",
                "--res_h=72",
                "--env_frameskip=4",
                "--use_rnn=True",
            ),
            *("--rnn_size=512", "--num_workers=2", "--num_envs_per_worker=16", "--worker_num_splits=2"),
            *("--rollout=32", "--batch_size=2048", "--num_batches_per_epoch=1", "--num_epochs=1"),
        ),
        arms={
            "sample_factory": _SAMPLE_FACTORY,
            "ours": Arm("own", (_BATTLE,)),
            "ours_best": Arm("own", (_BATTLE, "--precision=bf16", "--inference=worker", "--worker_num_splits=1")),
        },
        inference_rows=16,
    ),
    "cartpole": Task(
        family="gym",
        # Sample Factory's own defaults but for the first line; our family of small environments has others.
        flags=(
            *("--env=CartPole-v1", "--device=cpu", "--use_rnn=False", "--batch_size=2048", "--num_workers=2"),
            *("--num_envs_per_worker=16", "--worker_num_splits=2", "--rollout=32", "--num_batches_per_epoch=1"),
            *("--num_epochs=1", "--nonlinearity=elu", "--async_rl=True", "--value_bootstrap=False"),
            *("--ppo_clip_ratio=0.1", "--learning_rate=0.0001", "--encoder_mlp_layers", "512", "512"),
        ),
        arms={
            "sample_factory": _SAMPLE_FACTORY,
            # The same work for all; and what somebody gets who asks each framework for two layers of 512.
            "sb3": Arm("sb3", ("--networks=shared", *_SB3_SIZES)),
            "sb3_processes": Arm("sb3", ("--networks=shared", "--vec_env=subproc", *_SB3_SIZES)),
            "sb3_separate": Arm("sb3", ("--networks=separate", *_SB3_SIZES)),
            "ours": Arm("own"),
            # All environments in one process that runs the policy itself: nobody waits for a message of somebody else.
            "ours_best": Arm(
                "own",
                (
                    *("--precision=bf16", "--inference=worker", "--num_workers=1", "--num_envs_per_worker=32"),
                    "--worker_num_splits=1",
                ),
            ),
        },
        inference_rows=16,
    ),
    "halfcheetah": Task(
        family="mujoco",
        # Both families have the same defaults; with fewer cores than its 8 workers ours puts as many environments into
        # as many workers as cores.
        flags=("--env=mujoco_halfcheetah", "--device=cpu"),
        arms={
            "sample_factory": _SAMPLE_FACTORY,
            "ours": Arm("own"),
            "ours_best": Arm("own", ("--inference=worker",)),
        },
        inference_rows=32,
        peer_env="HalfCheetah-v4",  # its gymnasium 0.29.1 with MuJoCo 2.3.7; ours is HalfCheetah-v5
    ),
}
