from __future__ import annotations

import signal

import pytest

from sample_profiler.runtime.surroundings.alarms import alarms_survived


@pytest.mark.parametrize(
    ("number", "timer"),
    [
        (signal.SIGALRM, signal.ITIMER_REAL),
        (signal.SIGVTALRM, signal.ITIMER_VIRTUAL),
        (signal.SIGPROF, signal.ITIMER_PROF),
    ],
)
def test_an_alarm_that_nobody_handles_ends_nothing(number, timer, caplog):
    left_s, _ = signal.setitimer(timer, 0)  # that of the time limit of the test
    handler = signal.signal(number, signal.SIG_DFL)
    try:
        with alarms_survived():
            signal.raise_signal(number)
            assert f"An alarm ({number.name}) came that nobody handles" in caplog.text
            signal.setitimer(timer, 1000)
        assert signal.getsignal(number) is signal.SIG_DFL
        assert signal.getitimer(timer) == (0, 0), "it would end whoever goes on after the run"
        signal.setitimer(timer, 1000)
        with alarms_survived():
            pass
        assert signal.getitimer(timer)[0] > 900, "that of a program around the run is its own"
        own = print
        signal.signal(number, own)
        with alarms_survived():
            assert signal.getsignal(number) is own
    finally:
        signal.signal(number, handler)
        signal.setitimer(timer, left_s)
