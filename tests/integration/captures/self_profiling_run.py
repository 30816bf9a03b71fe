"""Trains on environments one of which profiles itself, in turn with each profiler that a file names, until told to end.

Run by test_captures_beside_others.py, which finds in the folder `SELF_PROFILING` what the environment has to tell.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sample_profiler import RunObserver, register_env

FOLDER = Path(os.environ.get("SELF_PROFILING", "."))
NUM_STEPS = 7  # of an episode, so that there are resets
END, NOBODY = "end", "nobody"


def make(name, cfg, placement, render_mode=None):
    import gymnasium
    import numpy as np

    from tests.integration.captures.self_profiling import SelfProfiling

    class Env(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self):
            self.phase = ""
            self.profiling = None
            self.num_steps = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.num_steps = 0
            if self.profiling is not None:
                self.profiling.reset()
            return np.zeros(4, np.float32), {}

        def step(self, action):
            self.follow()
            if self.profiling is not None:
                self.profiling.step()
                self.tell()
            self.num_steps += 1
            return np.ones(4, np.float32), 1.0, self.num_steps == NUM_STEPS, False, {}

        def follow(self):
            """Begin with the profiler that is named now, if that is another one."""
            phase = (FOLDER / "phase").read_text()
            if phase == self.phase:
                return
            if self.profiling is not None:
                self.profiling.close()
                self.tell()
            self.phase = phase
            kind, _, profiler = phase.partition("|")
            self.profiling = SelfProfiling(profiler, kind) if profiler else None
            (FOLDER / "told").write_text(phase)

        def tell(self):
            for problem in self.profiling.problems:
                with (FOLDER / "problems").open("a") as file:
                    file.write(f"{problem}\n")
            self.profiling.problems.clear()
            if self.profiling.results == 1:
                (FOLDER / "results").write_text(self.phase)

    env = Env()
    if placement is None or placement.env_id:
        env.follow = lambda: None
    return env


register_env("self_profiling", make)


class Ending(RunObserver):
    """Ends the run when the file says so."""

    def on_start(self, runner):
        self.runner = runner

    def on_status(self, status):
        if (FOLDER / "phase").read_text() == END:
            self.runner.interrupt("all have profiled")


if __name__ == "__main__":
    from sample_profiler import train

    sys.exit(train(observers=[Ending()]))
