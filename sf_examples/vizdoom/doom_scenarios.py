"""The Doom scenarios that have a name here: files, actions, rewards. Plain data; imports neither ViZDoom nor numpy."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sample_profiler.errors import EnvError

__all__ = ["DOOM_SCENARIOS", "DoomScenario", "find_scenario_file"]


@dataclass(frozen=True, kw_only=True)
class DoomScenario:
    """A scenario file and what an agent does in it.

    Attributes:
        name: Name of the environment.
        file: The scenario's configuration file: a path, or the name of a file that ViZDoom ships.
        buttons: Names of ViZDoom's buttons. Action 0 does nothing, action i holds button i - 1.
        episode_timeout_tics: Length at which an episode is cut off; a second of the game has 35 tics.
        reward_scale: Factor of the scenario's reward.
        living_reward: Reward per tic instead of what the file says.
        death_penalty: Penalty instead of what the file says.
        health_gain_reward: Added, unscaled, to each step in which the agent's health rose.
    """

    name: str
    file: str
    buttons: tuple[str, ...]
    episode_timeout_tics: int
    reward_scale: float = 1.0
    living_reward: float | None = None
    death_penalty: float | None = None
    health_gain_reward: float = 0.0


_SCENARIOS = (
    # One monster across the room: -1 per tic, -5 per missed shot, 101 for the kill, which ends the episode.
    DoomScenario(
        name="doom_basic",
        file="basic.cfg",
        buttons=("MOVE_LEFT", "MOVE_RIGHT", "ATTACK"),
        episode_timeout_tics=300,
        reward_scale=0.01,
    ),
    # An acid floor and medkits: a little for every tic alive, 1 for every medkit, nothing for dying, as in
    # https://arxiv.org/abs/1904.01806.
    DoomScenario(
        name="doom_health_gathering",
        file="health_gathering.cfg",
        buttons=("TURN_LEFT", "TURN_RIGHT", "MOVE_FORWARD", "MOVE_BACKWARD"),
        episode_timeout_tics=2100,
        living_reward=0.01,
        death_penalty=0.0,
        health_gain_reward=1.0,
    ),
    # Monsters from all sides, little ammunition: +1 per kill, -1 for dying.
    DoomScenario(
        name="doom_defend_the_center",
        file="defend_the_center.cfg",
        buttons=("TURN_LEFT", "TURN_RIGHT", "ATTACK"),
        episode_timeout_tics=2100,
    ),
    # For measuring throughput: a large map with many monsters and all movements. The scenario itself rewards kills, one
    # point and more for dangerous monsters, so nothing is added.
    DoomScenario(
        name="doom_benchmark",
        file="deathmatch.cfg",
        buttons=(
            "MOVE_FORWARD",
            "MOVE_BACKWARD",
            "MOVE_RIGHT",
            "MOVE_LEFT",
            "TURN_RIGHT",
            "TURN_LEFT",
            "ATTACK",
            "SPEED",
        ),
        episode_timeout_tics=2100,
    ),
)

DOOM_SCENARIOS = {scenario.name: scenario for scenario in _SCENARIOS}
"""The scenarios by the name of their environment."""


def find_scenario_file(name: str) -> Path:
    """Returns the full path of a scenario file.

    Args:
        name: A path, or the name of a file that ViZDoom ships; a file of that path counts first.

    Raises:
        EnvError: There is no such file.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path.absolute()
    # Looked up without importing ViZDoom: options are checked in processes that never start a game.
    package = find_spec("vizdoom")
    if package is None or package.origin is None:
        raise EnvError("ViZDoom is not installed: install the package vizdoom")
    folder = Path(package.origin).parent / "scenarios"
    if (folder / name).is_file():
        return folder / name
    raise EnvError(
        f"there is no scenario file {name!r}, neither from {Path.cwd()} nor among those of ViZDoom: give the path of a "
        f"scenario's .cfg file, or one of {', '.join(sorted(file.name for file in folder.glob('*.cfg')))}"
    )
