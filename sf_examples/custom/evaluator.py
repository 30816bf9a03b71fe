"""An evaluator: a component of one's own plays the latest weights beside the training after each checkpoint.

``python -m sf_examples.custom.evaluator``
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from sample_profiler import RunComponent
from sf_examples.gym.train_gym import register_gym_envs

if TYPE_CHECKING:
    from sample_profiler.components.evaluation import PlayedEpisode
    from sample_profiler.components.messages import CheckpointSaved
    from sample_profiler.run.extensions.signals import HasSignals

logger = logging.getLogger(__name__)

PIECE_S = 0.25  # of playing, after which the component has its turn: what it is told, commands, the end of the run


class LatestWeights(RunComponent):
    """Plays some episodes with the latest weights after each checkpoint; it may be lost, since nobody needs it."""

    may_be_lost = True

    def __init__(self, num_episodes: int = 5) -> None:
        """Set how many episodes an evaluation has."""
        self.num_episodes = num_episodes

    def on_connect_components(self, runner: HasSignals) -> None:
        """Hear of checkpoints; the slot is called in this component's process."""
        runner.signals.checkpoint_saved.connect(self.on_checkpoint)

    def timers(self) -> Sequence[tuple[float, Callable[[], None]]]:
        """Play, bit by bit."""
        return [(0.05, self.play_on)]

    def on_start(self) -> None:
        """Wait for weights."""
        self.playing: Generator[PlayedEpisode | None, None, None] | None = None

    def on_checkpoint(self, saved: CheckpointSaved) -> None:
        """Begin to play, unless the last evaluation still goes on."""
        if saved.kind == "latest" and self.playing is None:
            latest, self.version = self.run.load_policy(saved.policy)
            self.policy, self.frames = saved.policy, self.run.frames(saved.policy)
            self.playing = self.run.play(latest, self.num_episodes)
            self.episodes: list[PlayedEpisode] = []

    def play_on(self) -> None:
        """Play for a moment; report when all episodes are over."""
        end_s = time.monotonic() + PIECE_S
        while self.playing is not None and time.monotonic() < end_s:
            if (episode := next(self.playing)) is not None:
                self.episodes.append(episode)
            if len(self.episodes) == self.num_episodes:
                self.report()

    def on_stop(self) -> None:
        """Close the environment that is played in, if one is."""
        if self.playing is not None:
            self.playing.close()

    def report(self) -> None:
        """Tell the run, and the log; the signal evaluation_finished tells everybody else."""
        returns = ", ".join(f"{episode.reward:.3f}" for episode in self.episodes)
        logger.info("Weights of %d optimizer steps: returns %s", self.version, returns)
        self.run.report_evaluation(self.episodes, self.policy, self.frames)
        self.playing = None


DEFAULTS = {"env": "CartPole-v1", "experiment": "evaluated", "save_every_sec": 5, "train_for_env_steps": 200_000}


def main(argv: Sequence[str] | None = None) -> int:
    """Train; flags on the command line replace the defaults above."""
    from sample_profiler.cli.train import train

    register_gym_envs()
    return train(argv, defaults=DEFAULTS, components=[LatestWeights()])


if __name__ == "__main__":
    sys.exit(main())
