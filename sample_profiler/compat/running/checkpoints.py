"""Owns how Sample Factory's code finds and reads checkpoints: by functions of a class that there is none of here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from sample_profiler.compat.settings.carrying import run_folder_of
from sample_profiler.compat.settings.saved import cfg_dict
from sample_profiler.envs import EnvSpec
from sample_profiler.errors import CheckpointError
from sample_profiler.foreign.layout import name_as_original
from sample_profiler.foreign.reading import read_state

__all__ = ["Learner", "load_state_dict"]

logger = logging.getLogger(__name__)

_NOT_SERVED = "a Learner of one's own is not served by sample_profiler.compat; see docs/migrating.md"
_PREFIXES = {"latest": "checkpoint", "best": "best"}


class _AsItIs(type):
    """A class whose methods cannot be replaced: what would be called in their place is never called here."""

    def __setattr__(cls, name: str, value: Any) -> None:
        if name not in vars(cls):
            raise TypeError(f"{cls.__name__}.{name} = …: {_NOT_SERVED}")
        super().__setattr__(name, value)

    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(f"{cls.__name__}.{name}: {_NOT_SERVED}")


class Learner(metaclass=_AsItIs):
    """Where functions around checkpoints are found; it cannot be derived from, since training is one piece here."""

    def __init_subclass__(cls, **_keywords: Any) -> None:
        raise TypeError(f"{cls.__name__}: {_NOT_SERVED}")

    @staticmethod
    def checkpoint_dir(cfg: Any, policy_id: int) -> str:
        """Return the folder of a policy's checkpoints; it is made, if it is not there."""
        folder = run_folder_of(cfg_dict(cfg)).checkpoints(policy_id)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    @staticmethod
    def get_checkpoints(checkpoints_dir: str, pattern: str = "checkpoint_*") -> list[str]:
        """Return the checkpoints in a folder, oldest first."""
        return sorted(str(path) for path in Path(checkpoints_dir).glob(pattern) if path.suffix == ".pth")

    @staticmethod
    def load_checkpoint(checkpoints: Sequence[str], device: Any) -> dict[str, Any] | None:
        """Return what is in the last one: of a run of this package, or of Sample Factory's. Nothing is executed.

        Args:
            checkpoints: From :meth:`get_checkpoints`.
            device: Where its tensors are to be.

        Returns:
            `model`, `env_steps` and `train_step` among others; None: there is none, or it cannot be read.
        """
        if not checkpoints:
            logger.warning("There are no checkpoints")
            return None
        try:
            state = read_state(Path(checkpoints[-1]))
        except CheckpointError as error:
            logger.error("%s", error)
            return None
        model = {name: value.to(device) for name, value in _as_original(state).items()}
        counts = {"env_steps": state.get("frames"), "train_step": state.get("optimizer_steps")}
        return {**counts, **state, "model": model}


def _as_original(state: dict[str, Any]) -> dict[str, Tensor]:
    """Return the weights of a checkpoint as the original names them; those of a script's own network as they are."""
    model: dict[str, Tensor] = state["model"]
    if "env_spec" not in state or not any(name.startswith("trunks.") for name in model):
        return model
    return name_as_original(model, EnvSpec.from_data(state["env_spec"]).observation_space)


def load_state_dict(cfg: Any, actor_critic: nn.Module, device: torch.device) -> None:
    """Load the policy that options name into a network.

    Raises:
        CheckpointError: There is none.
    """
    folder = Learner.checkpoint_dir(cfg, cfg.policy_index)
    found = Learner.get_checkpoints(folder, f"{_PREFIXES[cfg.load_checkpoint_kind]}_*")
    state = Learner.load_checkpoint(found, device)
    if state is None:
        raise CheckpointError(f"there is no {cfg.load_checkpoint_kind} checkpoint in {folder}")
    actor_critic.load_state_dict(state["model"])
