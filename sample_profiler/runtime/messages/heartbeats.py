"""Owns signs of life: how a component gives them, and who finds out that they have stopped.

Both directions: the Runner listens for the components', and every child looks at the Runner's, a clock reading in
shared memory that needs no message.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.messages.shared_memory import SharedArrays

__all__ = ["CAPTURE_S", "FIRST_SIGN_S", "SAVE_S", "Heartbeat", "Pulse", "RunnerPulse", "Silences"]

_PULSE_S = 1.0
_LOOKS_IN_VAIN = 3
_AWAY_S = 5.0  # more between two looks was no delay of our own

FIRST_SIGN_S = 180.0
"""Patience before the first sign of life: libraries are loaded, by all components at once, perhaps over a network."""


CAPTURE_S = 600.0
"""Patience with a process that begins or ends a capture: libraries are loaded, a long trace takes minutes to write."""

SAVE_S = 300.0
"""Patience with a write to the disk, which a file system over a network may let wait for minutes."""


@dataclass(frozen=True)
class Heartbeat:
    """The component goes on.

    Attributes:
        component: who.
        patience_s: that is to be had until its next sign of life, if more than usual.
        is_starting: it makes or resets an environment for the first time, as all others may at the moment.
    """

    component: str
    patience_s: float = 0.0
    is_starting: bool = False


class _Beating:
    """Whoever can give signs of life by itself, too, while the kernel has to be waited for."""

    def beat(self) -> None:
        """Give a sign of life."""
        raise NotImplementedError

    @contextlib.contextmanager
    def beating(self, limit_s: float) -> Iterator[None]:
        """Give signs of life from a thread of its own meanwhile, where the kernel may have to be waited for.

        They end where patience would not: with a process that is stopped, all of whose threads are.

        Args:
            limit_s: after which there are no more of them: the process counts as silent from then on.
        """
        is_over = threading.Event()
        arguments = (is_over, time.monotonic() + limit_s)
        thread = threading.Thread(target=self._beat_until, args=arguments, daemon=True, name="heartbeat")
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _beat_until(self, is_over: threading.Event, end_s: float) -> None:
        while not is_over.wait(_PULSE_S) and time.monotonic() < end_s:
            self.beat()


class Pulse(_Beating):
    """Gives signs of life from inside long work, where the loop has no turn.

    Args:
        component: whose.
        reports: to the Runner.
        clock: returns seconds that never go back.
    """

    def __init__(self, component: str, reports: Reports, clock: Callable[[], float] = time.monotonic) -> None:
        self._component = component
        self._reports = reports
        self._clock = clock
        self._next_s = 0.0
        self._latest = (0.0, False)

    def beat(self, patience_s: float = 0.0, *, is_starting: bool = False) -> None:
        """Give a sign of life, unless the last one was just now; call it as often as you like.

        Args:
            patience_s: that is to be had until the next one, if more than usual: something long begins.
            is_starting: an environment is made or reset for the first time until then.
        """
        now_s = self._clock()
        if now_s >= self._next_s or (patience_s, is_starting) != self._latest:
            self._next_s = now_s + _PULSE_S
            self._latest = patience_s, is_starting
            self._reports.send(Heartbeat(self._component, patience_s, is_starting))


class Silences:
    """Tells which components have not shown a sign of life for too long.

    Args:
        report_after_s: after which a silence is worth telling, and told again.
        lost_after_s: after which the component counts as lost, if it has not asked for more patience; before its first
            sign of life at least `FIRST_SIGN_S`.
        start_s: how long a component may take to make or reset an environment for the first time, while all do.
        clock: returns seconds that never go back.

    Attributes:
        starting: components that are expected and have not begun to work yet.
    """

    def __init__(
        self,
        report_after_s: float,
        lost_after_s: float,
        start_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report_after_s = report_after_s
        self._lost_after_s = lost_after_s
        self._start_s = start_s
        self._heard_s: dict[str, float] = {}
        self._told_s: dict[str, float] = {}
        self._patience_s: dict[str, float] = {}
        self._clock = clock
        self._looked_s = clock()
        self.starting: set[str] = set()

    def expect(self, component: str) -> None:
        """Watch this component from now on; of others no signs of life are due."""
        self._heard_s[component] = self._told_s[component] = self._clock()
        self._patience_s[component] = FIRST_SIGN_S
        self.starting.add(component)

    def hear(self, heartbeat: Heartbeat) -> None:
        """Note a sign of life."""
        component = heartbeat.component
        if not heartbeat.is_starting:
            self.starting.discard(component)
        if component in self._heard_s:
            self._heard_s[component] = self._told_s[component] = self._clock()
            start_s = self._start_s if heartbeat.is_starting else 0.0
            self._patience_s[component] = start_s + heartbeat.patience_s

    def forget(self, component: str) -> None:
        """Stop watching a component that has finished or is being looked after otherwise."""
        for times in (self._heard_s, self._told_s, self._patience_s):
            times.pop(component, None)
        self.starting.discard(component)

    def look(self) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """Return who is silent and it is time to tell, and who counts as lost, each with the seconds of silence.

        Call it every second or so. If this process itself was away for long, as while a virtual machine is paused, the
        components were, too: that time does not count.
        """
        now_s = self._clock()
        away_s = max(0.0, now_s - self._looked_s - _AWAY_S)
        self._looked_s = now_s
        if away_s:
            for times in (self._heard_s, self._told_s):
                # No more than up to now: some may have been heard meanwhile.
                times.update({component: min(now_s, then_s + away_s) for component, then_s in times.items()})
        silent_s = {component: now_s - heard_s for component, heard_s in self._heard_s.items()}
        lost = {c: s for c, s in silent_s.items() if s >= max(self._lost_after_s, self._patience_s[c])}
        late = [c for c, told_s in self._told_s.items() if now_s - told_s >= self._report_after_s and c not in lost]
        self._told_s.update(dict.fromkeys(late, now_s))
        return [(component, silent_s[component]) for component in late], list(lost.items())


class RunnerPulse(_Beating):
    """The Runner's sign of life, which every child can see.

    Lies in shared memory: a Runner that hangs cannot answer, and children that hang cannot ask.

    Args:
        clock_ns: returns nanoseconds that never go back, the same in all processes.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._arrays = SharedArrays({"beat": ((1,), "int64")})

    def beat(self) -> None:
        """Tell that the Runner goes on."""
        self._arrays["beat"][0] = self._clock_ns()

    def silent_s(self) -> float:
        """Return the seconds since the latest beat; 0 before the first."""
        beat_ns = int(self._arrays["beat"][0])
        return (self._clock_ns() - beat_ns) / 1e9 if beat_ns else 0.0

    def make_watch(self, limit_s: float) -> Callable[[], bool]:
        """Return a function that tells whether the Runner has been silent for too long; call it every second or so.

        It has to look so several times in a row: after a pause of the whole machine all clocks jump, and the Runner
        needs a moment to show that it is there.
        """
        num_looks = 0

        def is_silent() -> bool:
            nonlocal num_looks
            num_looks = num_looks + 1 if self.silent_s() > limit_s else 0
            return num_looks >= _LOOKS_IN_VAIN

        return is_silent
