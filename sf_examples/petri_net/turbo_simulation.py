"""The same net, compiled by hand: only what can change is looked at, and only where it can.

What wafers do in load port, buffer, transports and at the end has no part in rewards, so the at most seven wafers in
chambers are all that time passes for. The observation is a list of numbers of which a move changes four and time one
for each wafer; all times are multiples of an action's, so what a stay looks like is looked up.
"""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from sf_examples.petri_net.cluster_tool import (
    ACTION_TIME,
    END_TIME,
    GRACE,
    MOVES,
    ROBOTS,
    STATIONS,
    TRANSPORT_TIME,
    WAIT,
    Rewards,
)
from sf_examples.petri_net.observation import KIND_SCALE, NO_LIMIT, PLACE_SCALE, TIME_SCALE

__all__ = ["TurboSimulation"]

_NUM_STATIONS = len(STATIONS)
_KINDS = {"load port": 0.0, "chamber": 1.0, "buffer": 2.0, "done": 4.0}
_KIND = [_KINDS[station.kind] * KIND_SCALE for station in STATIONS] + [3.0 * KIND_SCALE] * len(MOVES)
_DELAY = [station.processing_time for station in STATIONS]
# Of each move: source, transport, target, robot, delay of the source, capacity of the target.
_MOVES = [
    (move.source, _NUM_STATIONS + number, move.target, move.robot, _DELAY[move.source], STATIONS[move.target].capacity)
    for number, move in enumerate(MOVES)
]
_PICK_UPS = [(2 * number, move) for number, move in enumerate(_MOVES)]
_ONLY_WAITING = bytes([*([0] * WAIT), 1])
_LAST = _NUM_STATIONS - 1
# By chamber: processing time, whether it can spoil wafers, and then the time left, scaled, by the number of actions
# that a wafer has been there for; it stays no longer than that.
_CHAMBERS = {
    number: (
        station.processing_time,
        station.is_scrapping,
        [
            (station.processing_time + GRACE - stay) * TIME_SCALE
            for stay in range(0, station.processing_time + GRACE + 2 * ACTION_TIME, ACTION_TIME)
        ],
    )
    for number, station in enumerate(STATIONS)
    if station.kind == "chamber"
}
_STAYS = [stay * TIME_SCALE for stay in range(0, END_TIME + 2 * ACTION_TIME, ACTION_TIME)]


class TurboSimulation:
    """One tool and its wafers; as `PlainSimulation`, step by step, and several times as fast."""

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
        self._queues: list[list[int]] = [list(range(self._num_wafers)), *([] for _ in range(_LAST + len(MOVES)))]
        self._since = [0] * self._num_wafers
        self._begun = [0] * self._num_wafers  # the same, counted in actions
        self._tick = 0
        self._processed: dict[int, tuple[int, bool, list[float]]] = {}  # wafers in chambers
        self._is_free = [True] * len(ROBOTS)
        self._row_values = [0.0, 0.0, 0.0, NO_LIMIT * TIME_SCALE] * self._num_wafers

    def mask(self) -> npt.NDArray[np.int8]:
        """Return 1 for each action that is legal."""
        queues, since, is_free, now = self._queues, self._since, self._is_free, self.time
        mask = bytearray(_ONLY_WAITING)
        for pick_up, (source, transport, target, robot, delay, capacity) in _PICK_UPS:
            if is_free[robot]:
                waiting = queues[source]
                if waiting and now - since[waiting[0]] >= delay:
                    mask[pick_up] = 1
            else:
                carried = queues[transport]
                if (
                    carried
                    and now - since[carried[0]] >= TRANSPORT_TIME
                    and (capacity is None or len(queues[target]) < capacity)
                ):
                    mask[pick_up + 1] = 1
        return np.frombuffer(mask, np.int8)

    def observation(self) -> npt.NDArray[np.float32]:
        """Return place, kind, stay and time left to scrap of each wafer, `[4 num_wafers]`."""
        values, tick, begun, stays = self._row_values, self._tick, self._begun, _STAYS
        values[2::4] = [stays[tick - begin] for begin in begun]
        for wafer, (_, is_scrapping, left) in self._processed.items():
            if is_scrapping:
                values[4 * wafer + 3] = left[tick - begun[wafer]]
        return np.frombuffer(array("f", values), np.float32)

    def step(self, action: int) -> float:
        """Fire a transition, or none, let time pass, and return the reward.

        Raises:
            ValueError: the action is not legal.
        """
        rewards, queues, since, now = self._rewards, self._queues, self._since, self.time
        before = self.num_finished
        if action != WAIT:
            self._fire(action)
        processed = overstayed = 0
        for wafer, (delay, is_scrapping, _) in self._processed.items():
            stay = now - since[wafer]
            working = delay - stay
            if working >= ACTION_TIME:
                processed += ACTION_TIME
                continue
            if working > 0:
                processed += working
            else:
                working = 0
            if is_scrapping:
                overstayed += ACTION_TIME - working
                if stay + ACTION_TIME > delay + GRACE:
                    self.is_scrapped = True
        self.time = now + ACTION_TIME
        self._tick += 1
        reward = rewards.processing * processed + rewards.overstay * overstayed + rewards.time * ACTION_TIME
        if len(queues[_LAST]) > before:
            self.num_finished = before + 1
            self.is_finished = self.num_finished == self._num_wafers
            reward += rewards.finished
            if self.is_finished:
                reward += rewards.all_finished
        return reward + rewards.scrap if self.is_scrapped else reward

    def _fire(self, action: int) -> None:
        queues, now = self._queues, self.time
        source, transport, target, robot, delay, capacity = _MOVES[action // 2]
        is_pickup = action % 2 == 0
        origin, goal = (source, transport) if is_pickup else (transport, target)
        waiting = queues[origin]
        is_legal = bool(waiting) and now - self._since[waiting[0]] >= (delay if is_pickup else TRANSPORT_TIME)
        if is_pickup:
            is_legal = is_legal and self._is_free[robot]
        else:
            is_legal = is_legal and (capacity is None or len(queues[target]) < capacity)
        if not is_legal:
            raise ValueError(f"action {action} is not legal now; legal are {np.flatnonzero(self.mask()).tolist()}")
        wafer = waiting.pop(0)
        queues[goal].append(wafer)
        self._is_free[robot] = not is_pickup
        if goal in _CHAMBERS:
            self._processed[wafer] = _CHAMBERS[goal]
        else:
            self._processed.pop(wafer, None)
        self._since[wafer] = now
        self._begun[wafer] = self._tick
        # The stay and, in chambers that can spoil it, the limit are those of the moment: see `observation`.
        self._row_values[4 * wafer : 4 * wafer + 4] = goal * PLACE_SCALE, _KIND[goal], 0.0, NO_LIMIT * TIME_SCALE
