"""Isaac Gym's tasks by name: the settings of each, and which simulator stands for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sample_profiler.config import given_values, option
from sample_profiler.errors import EnvError
from sf_examples.brax.brax_env import make_brax_vector
from sf_examples.brax.brax_options import BRAX_DEFAULTS

if TYPE_CHECKING:
    from sample_profiler.envs import EnvPlacement

__all__ = ["ISAACGYM_DEFAULTS", "ISAACGYM_TASKS", "IsaacGymOptions", "isaacgym_defaults", "make_isaacgym_env"]

ISAACGYM_DEFAULTS = {key: value for key, value in BRAX_DEFAULTS.items() if key != "lr_adaptive_max"} | {
    "max_grad_norm": 0.0,
    "num_epochs": 4,
    "rollout": 16,
    "train_for_env_steps": 10_000_000,
}
"""What the family has instead of the flags' own defaults; a task may have others."""


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One of Isaac Gym's tasks.

    Attributes:
        stands_for_it: Brax's environment of the same body; None: there is none.
        num_members: Environments in the vector, as the task has them.
        defaults: What it has instead of the family's.
    """

    stands_for_it: str | None = None
    num_members: int = 4096
    defaults: Mapping[str, Any]


ISAACGYM_TASKS = {
    "Ant": _Task(
        stands_for_it="ant",
        defaults={"encoder_mlp_layers": (256, 128, 64), "experiment_summaries_interval": 3, "save_every_sec": 15},
    ),
    "Humanoid": _Task(
        stands_for_it="humanoid",
        defaults={
            "encoder_mlp_layers": (400, 200, 100),
            "max_grad_norm": 1.0,
            "num_batches_per_epoch": 4,
            "num_epochs": 5,
            "rollout": 32,
            "train_for_env_steps": 1_310_000_000,
            "value_loss_coeff": 4.0,
        },
    ),
    "Cartpole": _Task(
        stands_for_it="inverted_pendulum",
        num_members=512,
        defaults={"batch_size": 8192, "encoder_mlp_layers": (32, 32), "num_batches_per_epoch": 1, "num_epochs": 8},
    ),
    **{
        name: _Task(defaults={})
        for name in (
            *("AllegroHand", "AllegroHandLSTM", "AllegroKukaLSTM", "AllegroKukaTwoArmsLSTM", "Anymal"),
            *("AnymalTerrain", "BallBalance", "ShadowHand"),
        )
    },
}
"""By Isaac Gym's names. Those that nothing stands for are known so that they can be told of."""


@dataclass(frozen=True, kw_only=True)
class IsaacGymOptions:
    """Isaac Gym's tasks."""

    env_agents: int = option(-1, minimum=1, also=-1)
    """Number of environments in the vector; -1: as many as the task has, 4,096 for most."""

    obs_key: Literal["obs", "states"] = "obs"
    """Which observations the policy sees: those of the task, or states beside them, which none of these tasks has."""

    subtask: str | None = None
    """Part of a task to train on; none of those that can be simulated here has parts."""

    ige_api_version: Literal["preview3", "preview4"] = "preview4"
    """Version of Isaac Gym that a command line was written for; it changes nothing here."""

    eval_stats: bool = False
    """Statistics that hands that turn cubes have; none of those that can be simulated here has them."""

    brax_backend: Literal["mjx", "spring", "positional", "generalized"] = "mjx"
    """Physics that stand for Isaac Gym's: MuJoCo's MJX, or one of Brax's own, of which spring is the quickest."""

    def find_problems(self) -> Iterator[str]:
        """Yield what is wrong with the options, one message each."""
        if self.obs_key == "states":
            yield "--obs_key=states: the tasks that can be simulated here have no states beside observations: use obs"
        if self.subtask is not None:
            yield f"--subtask={self.subtask}: the tasks that can be simulated here have no parts: leave it out"


def isaacgym_defaults(argv: Sequence[str]) -> dict[str, Any]:
    """Return what a command line has instead of the flags' own defaults: what its task has, or the family.

    Args:
        argv: The command line without the program's name.
    """
    task = ISAACGYM_TASKS.get(given_values(argv).get("env", ""))
    return ISAACGYM_DEFAULTS | dict(task.defaults if task else {})


def make_isaacgym_env(
    full_env_name: str,
    cfg: Any,
    env_config: EnvPlacement | None,  # noqa: ARG001
    render_mode: str | None = None,
) -> Any:
    """Make a vector of what stands for one of :data:`ISAACGYM_TASKS`.

    Raises:
        EnvError: Nothing does, or Brax is not installed; or pictures are wanted, of which there are none.
    """
    task = ISAACGYM_TASKS[full_env_name]
    if task.stands_for_it is None:
        available = ", ".join(name for name, each in ISAACGYM_TASKS.items() if each.stands_for_it)
        raise EnvError(
            f"--env={full_env_name} needs Isaac Gym itself, which no Python above 3.8 can import, and no simulator "
            f"that can be installed has a body like it: there are {available}"
        )
    num_members = task.num_members if cfg.env_agents == -1 else cfg.env_agents
    return make_brax_vector(task.stands_for_it, num_members, cfg, render_mode)
