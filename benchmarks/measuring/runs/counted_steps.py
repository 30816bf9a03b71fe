"""Environments whose worker counts the seconds of its steps without the recorder.

The function that makes an environment runs in every process that steps one; there it puts a clock around the function
that a RolloutWorker calls inside its block `env_step`. Each process leaves its seconds in a file when it closes its
environments.
"""

from __future__ import annotations

import functools
import json
import math
import os
import time
from pathlib import Path
from typing import Any
from unittest import mock

from sample_profiler.envs import EnvPlacement, register_env, registry

_seconds: list[float] = []
_is_counting = False


def register_counted(name: str, folder: Path) -> None:
    """Have an environment that is registered, or found by a fallback, made with the clock from now on.

    Args:
        name: of the environment.
        folder: where each process leaves its file.
    """
    _seconds.clear()  # a serial run before, in this process, has counted its own
    register_env(name, functools.partial(_make, registry._find_maker(name), str(folder)))


def read_counted_s(folder: Path) -> float:
    """Return the seconds that all processes have counted."""
    return math.fsum(json.loads(path.read_text())["seconds"] for path in folder.glob("steps_*.json"))


def _make(
    make: Any,
    folder: str,
    name: str,
    cfg: Any,
    env_config: EnvPlacement | None,
    render_mode: str | None = None,
) -> Any:
    env = make(name, cfg, env_config, render_mode=render_mode)
    if env_config is None:  # only asked for its spaces
        return env
    _begin_counting()
    close = env.close

    def close_and_tell() -> None:
        Path(folder, f"steps_{os.getpid()}.json").write_text(json.dumps({"seconds": sum(_seconds)}))
        close()

    env.close = close_and_tell
    return env


def _begin_counting() -> None:
    global _is_counting
    from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup

    if _is_counting:
        return
    _is_counting = True
    step = SteppingGroup.step

    def counted(group: SteppingGroup) -> None:
        start_s = time.perf_counter()
        try:
            step(group)
        finally:
            _seconds.append(time.perf_counter() - start_s)

    mock.patch.object(SteppingGroup, "step", counted).start()  # for the rest of the process
