"""The net as a textbook has it: places with tokens, transitions with arcs, each asked in turn whether it may fire."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sf_examples.petri_net.cluster_tool import (
    ACTION_TIME,
    GRACE,
    MOVES,
    NUM_ACTIONS,
    ROBOTS,
    STATIONS,
    TRANSPORT_TIME,
    WAIT,
    Rewards,
)
from sf_examples.petri_net.observation import KIND_SCALE, NO_LIMIT, PLACE_SCALE, TIME_SCALE

__all__ = ["PlainSimulation"]


@dataclass
class _Token:
    """A wafer, or a robot, in a place.

    Attributes:
        wafer: its number; -1: a robot.
        since: when it came there.
    """

    wafer: int
    since: int


@dataclass
class _Place:
    name: str
    number: int
    kind: float
    delay: int = 0
    capacity: int | None = None
    is_processing: bool = False
    is_scrapping: bool = False
    tokens: list[_Token] = field(default_factory=list)

    def has_ready(self, now: int) -> bool:
        """Whether the oldest token may leave."""
        return bool(self.tokens) and now - self.tokens[0].since >= self.delay

    def has_room(self) -> bool:
        return self.capacity is None or len(self.tokens) < self.capacity


@dataclass
class _Transition:
    """Takes the oldest token of each input; a wafer goes to `target`, a robot to `robot_to`."""

    wafer_from: _Place
    wafer_to: _Place
    robot_from: _Place | None
    robot_to: _Place | None

    def is_enabled(self, now: int) -> bool:
        if not self.wafer_from.has_ready(now) or not self.wafer_to.has_room():
            return False
        return self.robot_from is None or bool(self.robot_from.tokens)

    def fire(self, now: int) -> None:
        token = self.wafer_from.tokens.pop(0)
        self.wafer_to.tokens.append(_Token(token.wafer, now))
        if self.robot_from is not None:
            self.robot_from.tokens.pop(0)
        if self.robot_to is not None:
            self.robot_to.tokens.append(_Token(-1, now))


class PlainSimulation:
    """One tool and its wafers.

    Args:
        num_wafers: that are to be finished.
        rewards: what actions are worth.

    Attributes:
        time: units since the start.
        num_finished: wafers that have arrived.
        is_finished: whether all wafers have arrived.
        is_scrapped: whether a wafer was spoiled.
    """

    def __init__(self, num_wafers: int, rewards: Rewards) -> None:
        self._num_wafers = num_wafers
        self._rewards = rewards
        self.reset()

    def reset(self) -> None:
        """Put all wafers into the load port, and the robots to rest."""
        self.time = 0
        self.num_finished = 0
        self.is_finished = False
        self.is_scrapped = False
        kinds = {"load port": 0.0, "chamber": 1.0, "buffer": 2.0, "done": 4.0}
        self._stations = [
            _Place(
                station.name,
                number,
                kinds[station.kind],
                station.processing_time,
                station.capacity,
                is_processing=station.kind == "chamber",
                is_scrapping=station.is_scrapping,
            )
            for number, station in enumerate(STATIONS)
        ]
        transports = [
            _Place(move.transport, len(STATIONS) + number, 3.0, TRANSPORT_TIME) for number, move in enumerate(MOVES)
        ]
        robots = [_Place(name, -1, -1.0, tokens=[_Token(-1, 0)]) for name in ROBOTS]
        self._wafer_places = [*self._stations, *transports]
        self._stations[0].tokens = [_Token(wafer, 0) for wafer in range(self._num_wafers)]
        self._transitions = []
        for move, transport in zip(MOVES, transports, strict=True):
            source, target, robot = self._stations[move.source], self._stations[move.target], robots[move.robot]
            self._transitions.append(_Transition(source, transport, robot, None))
            self._transitions.append(_Transition(transport, target, None, robot))

    def mask(self) -> npt.NDArray[np.int8]:
        """Return 1 for each action that is legal."""
        mask = np.zeros(NUM_ACTIONS, np.int8)
        for action, transition in enumerate(self._transitions):
            mask[action] = transition.is_enabled(self.time)
        mask[WAIT] = 1
        return mask

    def observation(self) -> npt.NDArray[np.float32]:
        """Return place, kind, stay and time left to scrap of each wafer, `[4 num_wafers]`."""
        rows = np.zeros((self._num_wafers, 4), np.float32)
        for place in self._wafer_places:
            for token in place.tokens:
                stay = self.time - token.since
                left = place.delay + GRACE - stay if place.is_scrapping else NO_LIMIT
                rows[token.wafer] = (
                    place.number * PLACE_SCALE, place.kind * KIND_SCALE, stay * TIME_SCALE, left * TIME_SCALE,
                )  # fmt: skip
        return rows.ravel()

    def step(self, action: int) -> float:
        """Fire a transition, or none, let time pass, and return the reward.

        Raises:
            ValueError: the action is not legal.
        """
        rewards = self._rewards
        before = self.num_finished
        if action != WAIT:
            transition = self._transitions[action]
            if not transition.is_enabled(self.time):
                raise ValueError(f"action {action} is not legal now; legal are {np.flatnonzero(self.mask()).tolist()}")
            transition.fire(self.time)
        processed = overstayed = 0
        for place in self._stations:
            for token in place.tokens:
                stay = self.time - token.since
                working = min(ACTION_TIME, max(0, place.delay - stay)) if place.is_processing else 0
                processed += working
                if place.is_scrapping:
                    overstayed += ACTION_TIME - working
                    if stay + ACTION_TIME > place.delay + GRACE:
                        self.is_scrapped = True
        self.time += ACTION_TIME
        self.num_finished = len(self._stations[-1].tokens)
        self.is_finished = self.num_finished == self._num_wafers
        reward = rewards.processing * processed + rewards.overstay * overstayed + rewards.time * ACTION_TIME
        reward += rewards.finished * (self.num_finished - before)
        if self.is_finished and self.num_finished > before:
            reward += rewards.all_finished
        return reward + rewards.scrap if self.is_scrapped else reward
