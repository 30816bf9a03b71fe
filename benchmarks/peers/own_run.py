"""Train with sample_profiler: `python -m benchmarks.peers.own_run OUTPUT doom|gym|mujoco FLAG…`.

The training script of the family, unchanged, but for a look at the counters of the run.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sample_profiler.components.messages import Counters
    from sample_profiler.config import Config
    from sample_profiler.run.runner import Runner

_MODULES = {
    "doom": "sf_examples.vizdoom.train_vizdoom",
    "gym": "sf_examples.gym.train_gym",
    "mujoco": "sf_examples.mujoco.train_mujoco",
}


class _Peek:
    """Knows the counters of the run as soon as there is one."""

    def __init__(self) -> None:
        self._counters: Counters | None = None

    def make_runner(self, config: Config, counters: Counters, *arguments: Any, **keywords: Any) -> Runner:
        from sample_profiler.run.runner import Runner

        self._counters = counters
        return Runner(config, counters, *arguments, **keywords)

    def frames(self) -> int:
        return 0 if self._counters is None else int(self._counters.trained_frames.sum())


def main() -> int:
    """Train and watch."""
    # Here and not above: the run's processes import this module again, and shall be no larger for it.
    from unittest import mock

    from benchmarks.peers.watching import Watch
    from sample_profiler.run import wiring

    output, family, *flags = sys.argv[1:]
    peek = _Peek()
    with mock.patch.object(wiring, "Runner", peek.make_runner), Watch(output, peek.frames):
        status: int = importlib.import_module(_MODULES[family]).main(flags)
    return status


if __name__ == "__main__":
    sys.exit(main())
