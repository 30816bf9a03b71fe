"""Which faults there are in which places, and what has to come of each.

A lost RolloutWorker has to be replaced, and the run to go on; any other loss has to end it, soon, with a non-zero
status.
"""

from __future__ import annotations

import itertools
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}
FAULTS = (*SIGNALS, "exception", "memory", "hang")
LASTING = ("stop", "hang")  # which only --hang_timeout tells
VICTIMS = ("Runner", "Batcher_0", "Learner_0", "InferenceWorker_p0-w0", "RolloutWorker_w0", "game")
MODES = ("async", "sync", "own inference", "serial")
SIGNAL_MODES = ("signals", "signals, sync", "signals, own inference")  # with --transport=fifo
ENVIRONMENTS = ("cartpole", "doom")
NUM_ROUNDS = 3
KILLS_OF_WORKERS = 20  # the commonest fault of all; its moment matters most
HANG_TIMEOUT_S = 5.0
LATEST_MOMENT_S = 9.0
MORE_S = 15.0  # that anything may take beyond the limit at which it is due


@dataclass(frozen=True)
class Plan:
    """One fault in one place at one moment.

    Attributes:
        fault: one of FAULTS.
        victim: one of VICTIMS.
        mode: one of MODES, or of SIGNAL_MODES.
        number: of the round.
        at_once: it happens as soon as the run trains; else at a random moment.
    """

    fault: str
    victim: str
    mode: str
    number: int = 0
    at_once: bool = False

    @property
    def environment(self) -> str:
        """Doom in every other round: its games are processes with named shared memory, which may be left behind."""
        return "doom" if self.victim == "game" or self.number % 2 else "cartpole"

    @property
    def after_s(self) -> float:
        """The moment, counted from the first training."""
        moment = random.Random(f"{self.fault} {self.victim} {self.mode} {self.number}").uniform(0, LATEST_MOMENT_S)
        return 0.3 if self.at_once else moment

    @property
    def goes_on(self) -> bool:
        """A game leaves requests to end to its owner, in all modes."""
        return (self.fault, self.victim) == ("terminate", "game")

    @property
    def is_replaced(self) -> bool:
        """A worker is, also when its game is lost; in serial mode there is no process to be replaced."""
        return self.victim in ("RolloutWorker_w0", "game") and self.mode != "serial" and not self.goes_on

    @property
    def limit_s(self) -> float:
        """When at the latest what has to come has come; a death is noticed at once, silence when its time is up."""
        return MORE_S + (HANG_TIMEOUT_S if self.fault in LASTING else 0.0)


def is_possible(fault: str, victim: str, mode: str) -> bool:
    """A game runs no Python, and with inference in the workers there is nobody else to draw actions.

    In serial mode nobody watches the one process, so it has to be left to act itself: when a game is told to end, has
    died or is stopped, when it is told to end itself, and when a component raises or hangs.
    """
    if mode == "serial":
        told = victim == "game" or (fault, victim) == ("terminate", "Runner")
        return (told and fault in SIGNALS) or (fault in ("exception", "hang") and victim != "game")
    if victim == "game" and fault not in SIGNALS:
        return False
    return not (mode.endswith("own inference") and victim.startswith("InferenceWorker"))


def all_plans(
    num_rounds: int = NUM_ROUNDS, num_kills: int = KILLS_OF_WORKERS, modes: Sequence[str] = MODES
) -> list[Plan]:
    """Return every possible case: each once, then each again, so that a part of them says something of all.

    Args:
        num_rounds: of every case.
        num_kills: rounds of RolloutWorkers that are killed, if that is more.
        modes: of the runs.
    """
    plans = []
    for fault, victim, mode in itertools.product(FAULTS, VICTIMS, modes):
        if is_possible(fault, victim, mode):
            is_commonest = (fault, victim) == ("kill", "RolloutWorker_w0")
            rounds = range(max(num_rounds, num_kills if is_commonest else 0))
            plans += [Plan(fault, victim, mode, number) for number in rounds]
    # Those that an undisturbed run is measured for follow each other, so that one serves several.
    return sorted(plans, key=lambda p: (min(p.number, num_rounds), p.is_replaced, p.environment, p.mode, p.number))
