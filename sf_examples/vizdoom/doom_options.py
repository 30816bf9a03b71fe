"""Options of the ViZDoom family, and what it has instead of the flags' own defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sample_profiler.config import option
from sample_profiler.errors import EnvError
from sf_examples.vizdoom.doom_scenarios import TICS_PER_MINUTE, DoomScenario, find_scenario_file

__all__ = ["MOST_PLAYERS", "VIZDOOM_DEFAULTS", "VizdoomOptions"]


MOST_PLAYERS = 16
"""Of a match: agents, bots and humans together."""


@dataclass(frozen=True, kw_only=True)
class VizdoomOptions:
    """ViZDoom."""

    res_w: int = option(128, minimum=8)
    """Width of the observations in pixels."""

    res_h: int = option(72, minimum=8)
    """Height of the observations in pixels."""

    wide_aspect_ratio: bool = False
    """Render 256×144 pixels instead of 160×120: a wider view, more work. Either is then resized to res_w × res_h; of
    that very size, it is used as it is."""

    doom_scenario: str | None = None
    """Scenario file (.cfg) to play instead of the environment's own, with the same actions and time limit; it has to
    offer their buttons."""

    timelimit: float | None = option(None, above=0.0, maximum=10_000.0)
    """Minutes after which an episode or match is cut off, instead of the environment's own; the game has 2,100 tics a
    minute."""

    num_agents: int = option(-1, minimum=-1, maximum=MOST_PLAYERS)
    """Players of a match who are agents, each with a game of its own; -1 or 0: as many as the match has."""

    num_bots: int = option(-1, minimum=-1, maximum=MOST_PLAYERS)
    """Bots of the game itself that join a match; -1: as many as the match has."""

    num_humans: int = option(0, minimum=0, maximum=MOST_PLAYERS)
    """Further players whom a match waits for before it begins; the log says where they join."""

    record_to: str | None = None
    """Folder for demos that ViZDoom can replay at any resolution: of the first environment of the first worker, and of
    the one that is played, in EXPERIMENT/TIME/e000.lmp and so on. Of matches, only one without bots has one."""

    def limit(self, scenario: DoomScenario) -> DoomScenario:
        """Return a scenario with the time limit that is asked for."""
        if self.timelimit is None:
            return scenario
        return replace(scenario, episode_timeout_tics=max(1, round(self.timelimit * TICS_PER_MINUTE)))

    def find_problems(self) -> Iterator[str]:
        """Yield what is wrong with the options, one message each."""
        if self.doom_scenario is not None:
            try:
                find_scenario_file(self.doom_scenario)
            except EnvError as error:
                yield f"--doom_scenario={self.doom_scenario}: {error}"


VIZDOOM_DEFAULTS = {
    "env_frameskip": 4,
    "exploration_loss": "symmetric_kl",
    "exploration_loss_coeff": 0.001,
    "obs_scale": 255.0,
    "ppo_clip_value": 0.2,
}
