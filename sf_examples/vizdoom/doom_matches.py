"""The matches between players that have a name here. Plain data; imports neither ViZDoom nor numpy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS, DoomScenario

__all__ = ["DOOM_MATCHES", "DoomMatch"]

_REWARDS = (("FRAGCOUNT", 1.0), ("DEATHCOUNT", -0.75), ("HITCOUNT", 0.01), ("DAMAGECOUNT", 0.003))


@dataclass(frozen=True, kw_only=True)
class DoomMatch:
    """A match.

    Attributes:
        scenario: Map, actions and length; what it says of rewards is for single players.
        num_players: Number of players, who are the environment's agents.
        num_bots: Number of bots of the game itself, who play, too.
        rewards: What a player earns when one of the game's variables rises by 1, by its name in ViZDoom.
    """

    scenario: DoomScenario
    num_players: int
    num_bots: int = 0
    rewards: tuple[tuple[str, float], ...] = _REWARDS

    @property
    def name(self) -> str:
        """Name of the environment."""
        return self.scenario.name


_ACTIONS = DOOM_SCENARIOS["doom_deathmatch"].actions
_DUEL = DoomScenario(name="doom_duel", file="multi_duel.cfg", actions=_ACTIONS, episode_timeout_tics=2100)
_DEATHMATCH = DoomScenario(name="doom_deathmatch_multi", file="cig.cfg", actions=_ACTIONS, episode_timeout_tics=4200)
_MATCHES = (
    # Two players face each other in a small room.
    DoomMatch(scenario=_DUEL, num_players=2),
    # Four players on a larger map with weapons to be found, that of ViZDoom's competitions.
    DoomMatch(scenario=_DEATHMATCH, num_players=4),
    # One agent against the game's own bots, on either map.
    DoomMatch(scenario=replace(_DUEL, name="doom_duel_bots"), num_players=1, num_bots=1),
    DoomMatch(scenario=replace(_DEATHMATCH, name="doom_deathmatch_bots"), num_players=1, num_bots=7),
)

DOOM_MATCHES = {match.scenario.name: match for match in _MATCHES}
"""The matches by the name of their environment."""
