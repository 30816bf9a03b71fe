"""The Doom scenarios that have a name here: files, actions, rewards. Plain data; imports neither ViZDoom nor numpy."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sample_profiler.errors import EnvError
from sample_profiler.files import expand_home

__all__ = ["DOOM_SCENARIOS", "TICS_PER_MINUTE", "DoomScenario", "find_scenario_file"]

TICS_PER_MINUTE = 2100
"""Of the game."""

Press = str | tuple[str, float]
"""A button that is held, by its name in ViZDoom; with a number, one that says how far."""


@dataclass(frozen=True, kw_only=True)
class DoomScenario:
    """A scenario file and what an agent does in it.

    Attributes:
        name: Name of the environment.
        file: The scenario's configuration file: a path, or the name of a file that ViZDoom ships.
        actions: What the agent decides in each step, one group for each decision: 0 holds none of the group, i holds
            entry i - 1. One group is a Discrete action, several are a Tuple of Discrete ones.
        episode_timeout_tics: Length at which an episode is cut off; a second of the game has 35 tics.
        reward_scale: Factor of the scenario's reward.
        living_reward: Reward per tic instead of what the file says.
        death_penalty: Penalty instead of what the file says.
        health_gain_reward: Added, unscaled, to each step in which the agent's health rose.
    """

    name: str
    file: str
    actions: tuple[tuple[Press, ...], ...]
    episode_timeout_tics: int
    reward_scale: float = 1.0
    living_reward: float | None = None
    death_penalty: float | None = None
    health_gain_reward: float = 0.0

    @property
    def buttons(self) -> tuple[str, ...]:
        """Names of the buttons that the actions use, each once."""
        return tuple(dict.fromkeys(button for button, _ in self._presses()))

    def rows(self) -> list[list[list[float]]]:
        """Return what each entry of each group holds: `[group][entry]`, one number for each of `buttons`."""
        buttons = self.buttons
        rows = []
        for group in self.actions:
            held = [[0.0] * len(buttons)]
            for button, amount in map(_as_pair, group):
                held.append([amount if each == button else 0.0 for each in buttons])
            rows.append(held)
        return rows

    def _presses(self) -> list[tuple[str, float]]:
        return [_as_pair(press) for group in self.actions for press in group]


def _as_pair(press: Press) -> tuple[str, float]:
    return (press, 1.0) if isinstance(press, str) else press


_TURN, _WALK, _STRAFE = ("TURN_LEFT", "TURN_RIGHT"), ("MOVE_FORWARD", "MOVE_BACKWARD"), ("MOVE_LEFT", "MOVE_RIGHT")
_SHOOT = (*_STRAFE, "ATTACK")
_TURN_BY = tuple(("TURN_LEFT_RIGHT_DELTA", float(degrees)) for degrees in range(-10, 11, 2) if degrees)

# Actions and rewards are what users of Sample Factory know where it has the scenario, else what the scenario's own file
# says.
_SCENARIOS = (
    # One monster across the room: -1 per tic, -5 per missed shot, 101 for the kill, which ends the episode.
    DoomScenario(name="doom_basic", file="basic.cfg", actions=(_SHOOT,), episode_timeout_tics=300, reward_scale=0.01),
    # The same with another monster and simpler walls, and with a rocket launcher, which has to be aimed.
    *(
        DoomScenario(
            name=f"doom_{name}", file=f"{name}.cfg", actions=(_SHOOT,), episode_timeout_tics=300, reward_scale=0.01
        )
        for name in ("simpler_basic", "rocket_basic")
    ),
    # To the vest at the end, past monsters on both sides: the reward is the way made good, 100 for dying.
    DoomScenario(
        name="doom_deadly_corridor",
        file="deadly_corridor.cfg",
        actions=(_TURN, _WALK, _STRAFE, ("ATTACK",)),
        episode_timeout_tics=2100,
        reward_scale=0.01,
    ),
    # Monsters from all sides, little ammunition: +1 per kill, -1 for dying; as two decisions, and as one.
    DoomScenario(
        name="doom_defend_the_center",
        file="defend_the_center.cfg",
        actions=(_TURN, ("ATTACK",)),
        episode_timeout_tics=2100,
    ),
    DoomScenario(
        name="doom_defend_the_center_flat_actions",
        file="defend_the_center.cfg",
        actions=((*_TURN, "ATTACK"),),
        episode_timeout_tics=2100,
    ),
    # Monsters from the other end of the room, who get stronger: +1 per kill, -1 for dying.
    DoomScenario(
        name="doom_defend_the_line", file="defend_the_line.cfg", actions=(_TURN, ("ATTACK",)), episode_timeout_tics=2100
    ),
    # An acid floor and medkits, then also a maze and poison: a little for every tic alive, 1 for every medkit, nothing
    # for dying, as in https://arxiv.org/abs/1904.01806.
    *(
        DoomScenario(
            name=f"doom_{name}",
            file=f"{name}.cfg",
            actions=((*_TURN, *_WALK),),
            episode_timeout_tics=2100,
            living_reward=0.01,
            death_penalty=0.0,
            health_gain_reward=1.0,
        )
        for name in ("health_gathering", "health_gathering_supreme")
    ),
    # A maze of nine rooms with a vest in one of them, which is worth 1; as two decisions, and as one.
    DoomScenario(name="doom_my_way_home", file="my_way_home.cfg", actions=(_TURN, _WALK), episode_timeout_tics=2100),
    DoomScenario(
        name="doom_my_way_home_flat_actions",
        file="my_way_home.cfg",
        actions=((*_TURN, *_WALK),),
        episode_timeout_tics=2100,
    ),
    # One rocket for a monster that walks: 1 for hitting it.
    DoomScenario(
        name="doom_predict_position",
        file="predict_position.cfg",
        actions=((*_TURN, "ATTACK"),),
        episode_timeout_tics=300,
    ),
    # Fireballs to be dodged, more and more: 1 for every tic alive.
    DoomScenario(name="doom_take_cover", file="take_cover.cfg", actions=(_STRAFE,), episode_timeout_tics=2100),
    # A large map with many monsters and weapons: a point per kill and more for dangerous ones.
    DoomScenario(
        name="doom_deathmatch",
        file="deathmatch.cfg",
        actions=(_WALK, _STRAFE, ("SELECT_PREV_WEAPON", "SELECT_NEXT_WEAPON"), ("ATTACK",), ("SPEED",), _TURN_BY),
        episode_timeout_tics=4200,
    ),
    # The same for measuring throughput: one decision, nothing added to the rewards.
    DoomScenario(
        name="doom_benchmark",
        file="deathmatch.cfg",
        actions=(
            (
                "MOVE_FORWARD",
                "MOVE_BACKWARD",
                "MOVE_RIGHT",
                "MOVE_LEFT",
                "TURN_RIGHT",
                "TURN_LEFT",
                "ATTACK",
                "SPEED",
            ),
        ),
        episode_timeout_tics=2100,
    ),
)

DOOM_SCENARIOS = {scenario.name: scenario for scenario in _SCENARIOS}
"""The scenarios by the name of their environment."""


def find_scenario_file(name: str) -> Path:
    """Return the full path of a scenario file.

    Args:
        name: A path, or the name of a file that ViZDoom ships; a file of that path counts first.

    Raises:
        EnvError: There is no such file.
    """
    path = expand_home(name, "doom_scenario", EnvError)
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
