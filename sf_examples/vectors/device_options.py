"""Flags of environments that live where their simulator does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sample_profiler.errors import EnvError

__all__ = ["DeviceOptions", "check_device", "refuse_pictures"]


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Environments on a device, as Sample Factory is told of them. Most is seen here from the arrays they return."""

    actor_worker_gpus: tuple[int, ...] = (0,)
    """GPU that environments are simulated on, if there is one: 0; without a number, the processors simulate them."""

    env_gpu_actions: bool = True
    """Whether environments take actions on their device: they get them where their observations are."""

    env_gpu_observations: bool = True
    """Whether environments return observations on their device, where they are read."""

    use_env_info_cache: bool = True
    """Whether spaces may be kept between runs: they are asked for at every start."""

    def find_problems(self) -> Iterator[str]:
        """Yield what is wrong with the options, one message each."""
        if self.actor_worker_gpus not in ((), (0,)):
            shown = " ".join(map(str, self.actor_worker_gpus))
            yield f"--actor_worker_gpus {shown}: a run has one GPU, which is 0: use CUDA_VISIBLE_DEVICES to choose it"


def check_device(cfg: Any, *, is_on_gpu: bool) -> None:
    """See whether the flags fit a vector.

    Args:
        cfg: The run's configuration.
        is_on_gpu: Whether the vector is simulated on a GPU.

    Raises:
        EnvError: They do not.
    """
    for flag in ("env_gpu_actions", "env_gpu_observations"):
        if is_on_gpu and not getattr(cfg, flag):
            raise EnvError(
                f"--{flag}=False: what is simulated on a GPU has actions and observations there; leave it out, or have "
                "the processors simulate (--actor_worker_gpus without a number)"
            )


def refuse_pictures(render_mode: str | None, of: str) -> None:
    """Say that there are none.

    Args:
        render_mode: As in gymnasium.
        of: Whose they would be.

    Raises:
        EnvError: They are wanted.
    """
    if render_mode is not None:
        raise EnvError(f"{of} show no pictures here: play with --no_render, and no --save_video")
