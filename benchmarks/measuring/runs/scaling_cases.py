"""The sizes that runs are made in, to see what grows with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["SWEEPS", "Case", "cases"]


@dataclass(frozen=True)
class Case:
    """One size.

    Attributes:
        task: of `benchmarks.versus`; its flags hold but for these.
        workers: processes that step environments.
        envs: of each of them.
        rollout: steps in a trajectory.
        arms: who runs in it.
    """

    task: str
    workers: int
    envs: int
    rollout: int = 32
    arms: tuple[str, ...] = ("ours",)

    @property
    def num_envs(self) -> int:
        """Of all workers."""
        return self.workers * self.envs

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"{self.task} {self.workers} x {self.envs}, rollout {self.rollout}"

    def flags_from(self, flags: list[str]) -> list[str]:
        """Return a task's flags with these sizes, which come first: a list of numbers may be the last flag."""
        sizes = {"num_workers": self.workers, "num_envs_per_worker": self.envs, "rollout": self.rollout}
        others = [flag for flag in flags if flag.removeprefix("--").partition("=")[0] not in sizes]
        return [*(f"--{name}={size}" for name, size in sizes.items()), *others]


_BOTH = ("ours", "sample_factory")

SWEEPS = {
    "games": (
        Case("doom", 2, 8),
        Case("doom", 2, 16, arms=_BOTH),
        Case("doom", 2, 32),
        Case("doom", 2, 64),
        Case("doom", 2, 96),
        Case("doom", 12, 16, arms=_BOTH),
    ),
    "cartpoles": (
        Case("cartpole", 2, 16, arms=_BOTH),
        Case("cartpole", 2, 128),
        Case("cartpole", 2, 512),
        Case("cartpole", 2, 2048),
    ),
    "workers": (
        *(Case("doom", workers, 32 // workers) for workers in (1, 2, 4)),
        *(Case("cartpole", workers, 32 // workers) for workers in (1, 2, 4)),
    ),
    "rollout": (
        *(Case("doom", 2, 16, rollout) for rollout in (16, 32, 64, 128)),
        *(Case("cartpole", 2, 16, rollout) for rollout in (16, 32, 64, 128)),
    ),
}
"""By what grows: games and CartPoles in all, workers for the same number of environments, steps in a trajectory."""


def cases(sweep: str, is_quick: bool) -> Iterator[Case]:
    """Yield the cases of a sweep; for a quick look the smallest and the largest of each task."""
    chosen = SWEEPS[sweep]
    for case in chosen:
        of_task = [each for each in chosen if each.task == case.task]
        if not is_quick or case in (of_task[0], of_task[-1]):
            yield case
