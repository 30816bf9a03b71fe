"""Who listens to a run under which name, and when what it takes is worth a warning."""

from __future__ import annotations

import functools
import logging

import pytest

from sample_profiler.components.messages import EpisodesFinished
from sample_profiler.run.listeners import HandlerListener, ObserverListener
from sample_profiler.run.observers import RunObserver

STEP = "on_training_step"


class Slow(RunObserver):
    def on_training_step(self, runner, training_iteration):
        """Nothing: how long it takes is made up."""


def note_all(calls_s, event=STEP, interval_s=0.0):
    """Note calls one after another, and so many seconds between them."""
    listener, now_s = ObserverListener(Slow()), 100.0
    for took_s in calls_s:
        now_s += took_s
        listener.note(event, took_s, now_s)
        now_s += interval_s
    return listener


def test_a_slow_observer_is_named_with_what_it_takes_once_and_then_rarely(caplog):
    note_all([0.4] * 300)
    first, *later = [record.getMessage() for record in caplog.records]
    assert first.startswith("Observer Slow takes 0.40 s for each training step, 92 % of the Runner's time")
    assert "a process or thread of its own" in first
    assert len(later) == 1, "the tenth time of some twenty"


@pytest.mark.parametrize(
    ("calls_s", "interval_s"),
    [
        ([20.0, *[0.001] * 1000], 0.05),
        ([*[0.001] * 1000, 20.0, *[0.001] * 1000], 0.05),
        ([0.003] * 3000, 0.05),
        ([1.0] * 5, 30.0),
        ([100.0], 0.0),
    ],
    ids=["first import", "one slow call", "quick", "now and then", "single"],
)
def test_observers_are_not_blamed_for_one_slow_call_nor_for_a_small_share(caplog, calls_s, interval_s):
    note_all(calls_s, interval_s=interval_s)
    assert not caplog.records


def test_slow_calls_that_come_seldom_are_named_by_their_share(caplog):
    note_all([5.0] * 4, "on_summaries", interval_s=30.0)
    assert "Observer Slow takes 5.00 s for each on_summaries, 12 %" in caplog.text


def test_what_it_takes_usually_leaves_the_slowest_call_out():
    assert note_all([]).usual_s(STEP) == 0
    assert note_all([9.0]).usual_s(STEP) == 0, "it may have imported something"
    assert note_all([2.0, 0.25, 0.75]).usual_s(STEP) == 0.5


class Handling:
    def take(self, runner, message):
        """Nothing."""

    def __call__(self, runner, message):
        """Nothing."""


def make_local():
    return lambda runner, message: None


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (Handling().take, "Handling.take"),
        (Handling(), "Handling"),
        (functools.partial(Handling.take, None), "Handling.take"),
        (functools.partial(Handling()), "Handling"),
        (make_local(), "make_local.<locals>.<lambda>"),
        (print, "print"),
    ],
)
def test_handlers_are_named_as_functions_are(handler, name):
    assert HandlerListener(EpisodesFinished, handler).name == name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("wait_inference", "_wait_inference"),
        ("observers", "_observers"),
        ("a/b", "a_b"),
        ("", "unnamed"),
        ("x\n\x1b[31m", "x\\n\\x1b[31m"),
        ("y" * 500, "y" * 80),
        ("Ünı", "Ünı"),
    ],
)
def test_names_are_such_that_a_block_may_have(given, name):
    assert ObserverListener(type(given, (RunObserver,), {})()).name == name


def test_messages_that_nobody_takes_are_bounded_and_counted(monkeypatch):
    monkeypatch.setattr("sample_profiler.run.listeners._MOST_MESSAGES", 3)
    seen = []
    listener = HandlerListener(EpisodesFinished, lambda _, message: seen.append(message))
    for message in range(5):
        listener.owe(None, message)
    assert listener.describe_missed() == "5 EpisodesFinished messages were not told to " + listener.name
    while listener.num_steps:
        listener.take_step()()
    assert seen == [2, 3, 4]
    assert listener.describe_missed().startswith("2 EpisodesFinished messages were not")


def test_what_an_observer_does_not_listen_for_is_not_owed():
    listener = ObserverListener(Slow())
    assert [event for event in ("on_status", STEP, "on_stop") if listener.hears(event)] == [STEP]
    listener.observer.on_status = logging.info
    assert listener.hears("on_status")
    deaf = ObserverListener(RunObserver())
    deaf.owe_steps(5, lambda *_: None)
    assert not deaf.is_owed
