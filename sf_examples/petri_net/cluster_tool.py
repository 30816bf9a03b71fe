"""The net of a wafer cluster tool, as plain data: places, transitions, times. Both simulations read it.

Wafers go LP → s1 → s2 → s3 → s4 → s5 → LP_done. Each move from a to b is two transitions, `u_a_b` (a robot picks a
wafer up) and `t_b` (it puts it down), around a transport place.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    *("ACTION_TIME", "END_TIME", "GRACE", "MOVES", "NUM_ACTIONS", "PLACES", "ROBOTS", "STATIONS", "TRANSITIONS"),
    *("TRANSPORT_TIME", "WAIT", "Move", "Rewards", "Station"),
]

ACTION_TIME = 5
"""Units of time that each action takes, waiting included."""

TRANSPORT_TIME = 5
"""Units that a wafer is on a robot at least."""

END_TIME = 50_000
"""At which an episode is cut off."""

GRACE = 15
"""Units that a wafer may stay in a chamber beyond its processing time."""


@dataclass(frozen=True)
class Station:
    """A place where wafers stay.

    Attributes:
        name: of the place.
        kind: "load port", "chamber", "buffer" or "done".
        processing_time: before a wafer can leave.
        capacity: in wafers; None: all.
        is_scrapping: whether a wafer that stays `GRACE` units too long is scrap.
    """

    name: str
    kind: str
    processing_time: int = 0
    capacity: int | None = None
    is_scrapping: bool = False


STATIONS = (
    Station("LP", "load port"),
    Station("s1", "chamber", 70, 2, is_scrapping=True),
    Station("s2", "buffer", 0, 1),
    Station("s3", "chamber", 300, 2, is_scrapping=True),
    Station("s4", "chamber", 70, 1),
    Station("s5", "chamber", 70, 2, is_scrapping=True),
    Station("LP_done", "done"),
)

ROBOTS = ("TM2", "TM3")


@dataclass(frozen=True)
class Move:
    """From one station to the next.

    Attributes:
        source, target: indices of stations.
        robot: index of who moves the wafer.
    """

    source: int
    target: int
    robot: int

    @property
    def transport(self) -> str:
        """Name of the place between picking up and putting down."""
        return f"d_{STATIONS[self.source].name}_{STATIONS[self.target].name}"

    @property
    def pick_up(self) -> str:
        """Name of the transition that takes a wafer from the source."""
        return f"u_{STATIONS[self.source].name}_{STATIONS[self.target].name}"

    @property
    def put_down(self) -> str:
        """Name of the transition that leaves it at the target: no other move leads there."""
        return f"t_{STATIONS[self.target].name}"


# TM2 serves LP, s1, s2, s4, s5, LP_done; TM3 serves s2, s3, s4.
MOVES = (Move(0, 1, 0), Move(1, 2, 0), Move(2, 3, 1), Move(3, 4, 1), Move(4, 5, 0), Move(5, 6, 0))

PLACES = (*(station.name for station in STATIONS), *(move.transport for move in MOVES), *ROBOTS)
"""All places: stations, transports, and one for each robot that is free."""

TRANSITIONS = tuple(name for move in MOVES for name in (move.pick_up, move.put_down))
"""By action: picking up and putting down of each move."""

WAIT = len(TRANSITIONS)
"""The action that fires no transition; always legal."""

NUM_ACTIONS = len(TRANSITIONS) + 1


@dataclass(frozen=True)
class Rewards:
    """What an action is worth.

    Attributes:
        processing: for each unit of time that a wafer is processed.
        overstay: for each unit that a finished wafer stays in a chamber that can spoil it.
        time: for each unit of time.
        finished: for each wafer that arrives.
        all_finished: for the last one, on top.
        scrap: for a wafer that is spoiled, which ends the episode.
    """

    processing: float = 0.01
    overstay: float = -0.02
    time: float = -0.005
    finished: float = 5.0
    all_finished: float = 20.0
    scrap: float = -20.0
