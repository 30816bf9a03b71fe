"""A curriculum: a component of one's own hears how episodes go, and tells environments to become harder.

``python -m sf_examples.custom.curriculum``
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from sample_profiler import RunComponent, register_env

if TYPE_CHECKING:
    from sample_profiler.components.messages import EpisodesFinished
    from sample_profiler.run.extensions.signals import HasSignals

logger = logging.getLogger(__name__)

HARDEST = 3


class CueEnv(gymnasium.Env[Any, Any]):
    """Name the cue that is shown: one of two, and of twice as many with each difficulty more."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2 ** (HARDEST + 1),), np.float32)
    action_space = gymnasium.spaces.Discrete(2 ** (HARDEST + 1))
    num_steps = 16
    next_difficulty = 0

    def set_difficulty(self, difficulty: int) -> None:
        """Be as hard as this from the next episode on; the component calls it in all environments."""
        self.next_difficulty = difficulty

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self.difficulty, self.step_in_episode = self.next_difficulty, 0
        return self.show_cue(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Reward the right name. What the last info says of an episode, signals tell, too."""
        reward = float(action == self.cue) / self.num_steps
        self.step_in_episode += 1
        info = {"episode_extra_stats": {"difficulty": float(self.difficulty)}}
        return self.show_cue(), reward, False, self.step_in_episode == self.num_steps, info

    def show_cue(self) -> Any:
        """Return what the agent sees."""
        self.cue = int(self.np_random.integers(2 ** (self.difficulty + 1)))
        return np.eye(2 ** (HARDEST + 1), dtype=np.float32)[self.cue]


class CurriculumServer(RunComponent):
    """Raises the difficulty when the latest episodes of it were good enough."""

    def __init__(self, good_return: float = 0.8, num_episodes: int = 40) -> None:
        """Set how many episodes have to be how good on average."""
        self.good_return, self.num_episodes = good_return, num_episodes

    def on_connect_components(self, runner: HasSignals) -> None:
        """Hear of all episodes; the slot is called in this component's process."""
        runner.signals.episodes_finished.connect(self.on_episodes)

    def on_start(self) -> None:
        """Begin with the easiest."""
        self.difficulty = 0
        self.returns: deque[float] = deque(maxlen=self.num_episodes)

    def on_episodes(self, finished: EpisodesFinished) -> None:
        """Look whether it is time for something harder."""
        for episode in finished.episodes:
            if episode.extra["difficulty"] == self.difficulty:  # some began before all had been told
                self.returns.append(episode.episode_return)
        if self.difficulty == HARDEST or len(self.returns) < self.num_episodes:
            return
        if (mean := fmean(self.returns)) >= self.good_return:
            self.difficulty += 1
            self.returns.clear()
            self.run.call_envs("set_difficulty", self.difficulty)
            self.run.add_scalars({"curriculum/difficulty": self.difficulty})
            logger.info("Mean return %.2f: difficulty %d from now on", mean, self.difficulty)

    def gauges(self) -> dict[str, float]:
        """Show the difficulty to whoever looks at the run."""
        return {"difficulty": self.difficulty}


register_env("custom_cue", lambda *_, **__: CueEnv())
DEFAULTS = {
    "env": "custom_cue",
    "experiment": "custom_cue",
    "encoder_mlp_layers": (32,),
    "learning_rate": 3e-3,
    "normalize_input": False,
    "train_for_env_steps": 300_000,
    "use_rnn": False,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Train; flags on the command line replace the defaults above."""
    from sample_profiler.cli.train import train

    return train(argv, defaults=DEFAULTS, components=[CurriculumServer()])


if __name__ == "__main__":
    sys.exit(main())
