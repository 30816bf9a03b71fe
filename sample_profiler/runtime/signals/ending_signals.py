"""Owns the signals that ask a process to end: which they are, and what a child of the Runner makes of them."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from types import FrameType

from sample_profiler.runtime.signals.early_interrupts import interrupts_raising

__all__ = [
    "ENDING_SIGNALS",
    "SAME_SIGNAL_S",
    "EndRequests",
    "EndedBySignal",
    "drop_dead_terminal",
    "is_soon",
    "prepare_for_signals",
    "signals_calling",
    "signals_held",
    "signals_raising",
    "take_notice_of_children",
    "write_to_nowhere",
]

logger = logging.getLogger(__name__)

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl+C; the end of a job or of the machine; a terminal that is closed."""

SAME_SIGNAL_S = 0.5
"""Within which a signal to all processes of a job has reached every one of them."""

_POLL_S = 0.01
_TO_A_CHILD = (signal.SIGTERM, signal.SIGHUP)


def prepare_for_signals() -> None:
    """Leave Ctrl+C to the Runner; before there is a loop, and something to finish, other signals end a child at once.

    What was held while the process was started arrives now.
    """
    _leave_interrupts()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def take_notice_of_children() -> bool:
    """Have the kernel keep how processes ended that are started from now on; tell whether it had been told to forget.

    Some programs do that, by ignoring SIGCHLD, so that ended processes need not be waited for; whoever waits is told
    nothing then.
    """
    is_main = threading.current_thread() is threading.main_thread()
    was_ignored = is_main and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    if was_ignored:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        logger.info("SIGCHLD was ignored, and is not while a run goes on, which has to know how its processes end")
    return was_ignored


def _leave_interrupts() -> None:
    """Have Ctrl+C do nothing here; not by ignoring it, which programs that are started here would go on with."""
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.siginterrupt(signal.SIGINT, False)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Keep Ctrl+C and its like waiting; processes that are spawned meanwhile hold them, too, until they are ready.

    Outside the main thread, nothing is held: signals are handled in the main thread, which goes on. Likewise a thread
    of a library may take a signal, and have it handled.
    """
    # The first process that is spawned would start the tracker of shared memory, which ends with no signal held.
    resource_tracker.ensure_running()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Copies:
    """Copies of this process do what processes do by default when they get a signal that this process handles.

    Whoever has forked, as a vector of environments, ends its processes by SIGTERM, maybe at once. Ctrl+C goes to all of
    them, and is left to the original.
    """

    def __init__(self) -> None:
        self._taken: tuple[int, ...] = ()
        self._held = threading.local()
        self._num_being_made = 0
        os.register_at_fork(before=self._hold, after_in_parent=self._release, after_in_child=self._let_go)

    @contextlib.contextmanager
    def ended_by(self, numbers: Iterable[int]) -> Iterator[None]:
        """Have copies that are made meanwhile do so."""
        before = self._taken
        self.end_by(numbers)
        try:
            yield
        finally:
            self._taken = before

    def end_by(self, numbers: Iterable[int]) -> None:
        """Have copies that are made from now on do so."""
        self._taken = (*self._taken, *numbers)

    def puts_off(self, number: int) -> bool:
        """Tell whether a signal will come again a moment later: while a copy is made, Python drops what is raised."""
        if self._num_being_made:
            threading.Timer(_POLL_S, os.kill, (os.getpid(), number)).start()
        return self._num_being_made > 0

    def _hold(self) -> None:
        # Python forgets signals that reach a copy before it has come to itself.
        self._num_being_made += 1
        self._held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)

    def _release(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._held.mask)
        self._num_being_made -= 1

    def _let_go(self) -> None:
        for number in self._taken:
            if number == signal.SIGINT:
                _leave_interrupts()
            else:
                signal.signal(number, signal.SIG_DFL)
        self._taken = ()
        self._num_being_made = 1  # those of other threads are not here
        self._release()


_copies = _Copies()


class EndedBySignal(KeyboardInterrupt):
    """SIGTERM or SIGHUP came.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"Ended by {signal.Signals(number).name}")
        self.number = number


@contextlib.contextmanager
def signals_raising() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise, as Ctrl+C does: what is open, such as an environment, is closed on the way out.

    One order may come twice, SIGHUP several times, and what closes then is not interrupted: only by a SIGTERM after
    `SAME_SIGNAL_S`. Not where they are ignored, or somebody else handles them already.
    """
    first_s = math.inf  # when the first one came

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal first_s
        if _copies.puts_off(number):
            return
        drop_dead_terminal()
        now_s = time.monotonic()
        is_first = first_s == math.inf
        first_s = min(first_s, now_s)
        if is_first or (number != signal.SIGHUP and now_s - first_s > SAME_SIGNAL_S):
            raise EndedBySignal(number)

    is_main = threading.current_thread() is threading.main_thread()
    taken = [number for number in _TO_A_CHILD if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, handle)
    try:
        with _copies.ended_by(taken), interrupts_raising() if is_main else contextlib.nullcontext():
            yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def signals_calling(interrupt: Callable[[int], None], kill: Callable[[], None]) -> Iterator[None]:
    """Let the first signal end the run in order, and a second Ctrl+C or SIGTERM at once.

    One order may come twice: `timeout` sends it to its child and then to all of its group. SIGHUP may come several
    times, from the kernel and from the shell, and before or after a SIGTERM: it hurries nobody. Who has had it ignored,
    as nohup, wants the run to go on.
    """
    is_ending = False
    first_s = math.inf  # when the first Ctrl+C or SIGTERM came

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal is_ending, first_s
        if _copies.puts_off(number):
            return
        was_ending, is_ending = is_ending, True
        if not was_ending:
            interrupt(number)
        if number != signal.SIGHUP:
            first_s = min(first_s, time.monotonic())
            if was_ending and time.monotonic() - first_s > SAME_SIGNAL_S:
                kill()
                raise KeyboardInterrupt("Interrupted again: everything was ended at once")

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals; who runs us elsewhere takes care of them
        return
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [number for number in ENDING_SIGNALS if number != signal.SIGHUP or not is_ignored]
    previous = [signal.signal(number, handle) for number in handled]
    try:
        with _copies.ended_by(handled):
            yield
    finally:
        for number, handler in zip(handled, previous, strict=True):
            signal.signal(number, handler)


def is_soon(condition: Callable[[], bool], within_s: float) -> bool:
    """Tell whether a condition holds, or comes to within some seconds, as a signal may make it."""
    deadline_s = time.monotonic() + within_s
    while not (holds := condition()) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return holds


class EndRequests:
    """SIGTERM and SIGHUP to a child end its loop, so that it finishes; then it dies of the signal, as others would.

    Whoever ends a job sends them to all of its processes; the Runner gets its own, and sees the ends that it asks for.
    One to a single child is an end that nobody has asked for, and the exit status says what it was.

    Args:
        stop_loop: ends the loop of this process.
    """

    def __init__(self, stop_loop: Callable[[], None]) -> None:
        self._stop_loop = stop_loop
        self._number: int | None = None
        self._taken = [number for number in _TO_A_CHILD if signal.getsignal(number) is not signal.SIG_IGN]
        for number in self._taken:
            signal.signal(number, self._take)
            signal.siginterrupt(number, False)  # foreign code may not know that a call can be interrupted
        _copies.end_by(self._taken)

    def was_asked(self, within_s: float = 0.0) -> bool:
        """Tell whether this process was asked to end, or is asked to within some seconds from now."""
        return is_soon(lambda: self._number is not None, within_s)

    def die_of_signal(self) -> None:
        """End this process by the signal that asked for it; return if none did."""
        if self._number is not None:
            self._let_go()
            signal.raise_signal(self._number)

    def _take(self, number: int, _: FrameType | None) -> None:
        self._number = number
        self._stop_loop()

    def _let_go(self) -> None:
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)


def drop_dead_terminal() -> None:
    """Write to nowhere instead of a terminal that was closed: any write there fails, Python's last one included."""
    for descriptor in filter(_is_dead, (1, 2)):
        write_to_nowhere(descriptor)


def write_to_nowhere(descriptor: int) -> None:
    """Let what is written to a descriptor from now on, and what waits to be, go nowhere."""
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), descriptor)


def _is_dead(descriptor: int) -> bool:
    try:
        os.write(descriptor, b"")
    except OSError as error:
        return error.errno == errno.EIO
    return False
