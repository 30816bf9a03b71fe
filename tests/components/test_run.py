"""What signals do to a run."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from sample_profiler.components.run import _signals_calling

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.fixture(autouse=True)
def earlier_handlers() -> Iterator[dict]:
    """What follows a signal outside of a run."""
    earlier = {number: (lambda *_: None) for number in (INT, TERM, HUP)}
    previous = {number: signal.signal(number, handler) for number, handler in earlier.items()}
    yield earlier
    for number, handler in previous.items():
        signal.signal(number, handler)


def run_with(*numbers: int) -> tuple[list[int], int]:
    """Raise signals in a run; return those that ended it in order, and how often it was ended at once."""
    ended, kills = [], []
    try:
        with _signals_calling(ended.append, lambda: kills.append(None)):
            for number in numbers:
                signal.raise_signal(number)
    except KeyboardInterrupt:
        assert kills
    return ended, len(kills)


@pytest.mark.parametrize("number", [INT, TERM, HUP])
def test_the_first_signal_ends_a_run_in_order(number, earlier_handlers):
    assert run_with(number) == ([number], 0)
    assert {number: signal.getsignal(number) for number in earlier_handlers} == earlier_handlers


@pytest.mark.parametrize("numbers", [(INT, INT), (TERM, TERM), (INT, TERM), (HUP, INT, INT), (INT, HUP, TERM)])
def test_a_second_one_ends_it_at_once(numbers):
    assert run_with(*numbers) == ([numbers[0]], 1)


@pytest.mark.parametrize("numbers", [(HUP, HUP, HUP), (HUP, TERM), (TERM, HUP), (TERM, HUP, HUP)])
def test_a_terminal_that_is_closed_hurries_nobody(numbers):
    assert run_with(*numbers) == ([numbers[0]], 0)


def test_a_run_whose_terminal_may_be_closed_goes_on(earlier_handlers):
    signal.signal(HUP, signal.SIG_IGN)
    assert run_with(HUP, HUP) == ([], 0)
    assert run_with(HUP, INT) == ([INT], 0)
    assert signal.getsignal(HUP) is signal.SIG_IGN
