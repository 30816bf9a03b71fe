"""The EvaluationWorker: plays its share of many episodes with a policy that is trained, in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sample_profiler.component_id import EVALUATION_WORKER, ComponentId
from sample_profiler.components.evaluation import Cast, Places, PlayedEpisode, Player, play
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.profiling import Timing
from sample_profiler.runtime.loop.event_loop import Timer
from sample_profiler.runtime.loop.unasked_component import UnaskedComponent
from sample_profiler.runtime.messages.channels import Reports

__all__ = ["EpisodePlayed", "EvaluationWorker"]

_LOOK_INTERVAL_S = 0.05
_PLAY_S = 0.25  # after which the loop has its turn: heartbeats, and the end


@dataclass(frozen=True)
class EpisodePlayed:
    """An EvaluationWorker has played an episode.

    Attributes:
        worker: its index.
        episode: what it was like.
    """

    worker: int
    episode: PlayedEpisode


class EvaluationWorker(UnaskedComponent):
    """Plays a number of episodes, and tells of each.

    Args:
        index: of this worker.
        make_env: builds the environment.
        make_player: builds what draws the actions.
        num_episodes: that it is to play.
        frames_per_step: frames that one step of the environment takes.
        bad_numbers: what follows where the environment returns numbers that are not finite.
        reports: where episodes go.
    """

    def __init__(
        self,
        index: int,
        make_env: Callable[[], AgentsEnv],
        make_player: Callable[[], Player | Cast],
        num_episodes: int,
        frames_per_step: int,
        bad_numbers: BadNumbers,
        reports: Reports,
    ) -> None:
        self.name = str(ComponentId(EVALUATION_WORKER, index=index))
        self.timing = Timing(f"{self.name} profile")
        self._index = index
        self._reports = reports
        player = make_player()
        self._env = make_env()
        self._places = Places(self._env, num_episodes, player.agents)
        self._playing = play(self._env, player, frames_per_step, repeats=1, bad_numbers=bad_numbers)

    def timers(self) -> list[Timer]:
        """Play."""
        return [Timer(_LOOK_INTERVAL_S, self._play)]

    def finish(self) -> None:
        """Close the environment."""
        self._env.close()

    def _play(self) -> None:
        end_s = time.monotonic() + _PLAY_S
        while not self._places.are_taken and time.monotonic() < end_s:
            episode = next(self._playing)
            if episode is not None and self._places.take(episode):
                self._reports.send(EpisodePlayed(self._index, episode))
