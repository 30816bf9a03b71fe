"""Who is told what, in which order and for how long, by a clock that calls move on."""

from __future__ import annotations

import functools

import pytest

from sample_profiler.components.messages import EpisodesFinished, TargetReached
from sample_profiler.profiling import Timing
from sample_profiler.run.dispatcher import Dispatcher
from sample_profiler.run.observers import RunObserver

NOW_AND_THEN = ("on_status", "on_summaries", "on_stop")


class Listening(RunObserver):
    """Takes some time for each thing that it is told, and remembers it.

    Args:
        run: has the clock.
        takes_s: by event; for others nothing.
    """

    def __init__(self, run, **takes_s):
        self.run, self.takes_s, self.told = run, takes_s, []
        for event in NOW_AND_THEN:
            setattr(self, event, functools.partial(self.take, event))

    def on_training_step(self, runner, number):
        self.take("on_training_step", number)

    def take(self, event, value):
        self.told.append((event, value))
        self.run.now_s += self.takes_s.get(event, 0.0)

    def steps(self):
        return [value for event, value in self.told if event == "on_training_step"]

    def count(self, event):
        return sum(event == each for each, _ in self.told)


class Slow(Listening):
    pass


class FakeRun:
    """A clock, and a dispatcher whose calls move it on."""

    def __init__(self, rest=0.0, **takes_s):
        self.now_s, self.is_over, self.failures = 1000.0, False, []
        self.slow, self.quick = Slow(self, **takes_s), Listening(self)
        self.timing = Timing("Runner", clock_ns=lambda: round(self.now_s * 1e9))
        self.dispatcher = Dispatcher(
            [self.slow, self.quick], self.timing, self._fail, lambda: self.is_over, rest, lambda: self.now_s
        )

    def _fail(self, error, who):
        self.failures.append((str(error), who))

    def owe(self, last, status="status"):
        self.dispatcher.owe_training_steps(last, lambda observer, number: observer.on_training_step(self, number))
        self.dispatcher.owe("on_status", lambda observer: observer.on_status(status))

    def turn(self):
        """Take a turn if it is due, as a loop does, and return how long it took."""
        begin_s = self.now_s
        if self.dispatcher.owed.has_pending():
            self.dispatcher.owed.receive()
            self.dispatcher.serve()
        return self.now_s - begin_s


@pytest.fixture
def make_run():
    return FakeRun


def test_quick_observers_are_told_everything_in_one_turn_and_in_order(make_run):
    run = make_run()
    run.owe(5)
    run.turn()
    expected = [*(("on_training_step", number) for number in range(1, 6)), ("on_status", "status")]
    assert run.slow.told == run.quick.told == expected
    assert not run.dispatcher.owed.has_pending()
    run.owe(5)
    run.owe(7)
    run.turn()
    assert run.quick.steps() == list(range(1, 8)), "each once"


def test_a_turn_is_over_after_one_slow_call_and_others_are_told_in_the_next(make_run):
    run = make_run(on_training_step=0.4)
    run.owe(30)
    assert run.turn() == pytest.approx(0.4)
    assert (run.slow.steps(), run.quick.steps()) == ([1], [])
    assert run.turn() == pytest.approx(0.4), "the quick one first, then the slow one goes on"
    assert run.quick.steps() == list(range(1, 31))
    assert run.slow.steps() == [1, 2]


def test_who_is_slow_with_steps_has_news_all_the_same_and_only_the_latest(make_run):
    run = make_run(on_training_step=0.4)
    for second in range(3):
        run.owe(100 * (second + 1), second)
        run.turn()
    assert ("on_status", 0) in run.slow.told
    run.owe(400, "older")
    run.owe(500, "newest")
    run.turn()
    assert run.slow.told[-1] == ("on_status", "newest")
    assert ("on_status", "older") not in run.slow.told


def test_others_have_as_much_time_as_a_turn_took_where_they_wait_for_it(make_run):
    run = make_run(rest=1.0, on_training_step=0.4)
    run.owe(3)
    run.turn()
    run.now_s += 0.39
    assert not run.dispatcher.owed.has_pending()
    run.now_s += 0.02
    assert run.dispatcher.owed.has_pending()


def test_a_run_that_ends_while_somebody_is_told_is_not_held_up(make_run):
    run = make_run(on_training_step=0.02)
    run.owe(1000)
    run.dispatcher.add_handler(TargetReached, lambda *_: setattr(run, "is_over", True))
    run.dispatcher.owe_message(None, TargetReached(0))
    while not run.is_over:
        run.turn()
    assert len(run.slow.steps()) < 10, "what a turn has time for"
    assert run.turn() == 0


def test_slots_hear_that_a_run_will_end_and_the_slow_one_holds_it_up_for_one_call_alone(make_run):
    run, heard = make_run(), []

    def hear_slowly(payload):
        heard.append(f"slowly {payload}")
        run.now_s += 30.0

    owe = [run.dispatcher.add_slot("stopping", slot) for slot in (heard.append, hear_slowly)]
    for payload in (1, 2):
        for each in owe:
            each(payload)
    run.is_over = True
    begin_s = run.now_s
    run.dispatcher.hurry_slots()
    assert heard == [1, 2, "slowly 1"] and run.now_s - begin_s == 30.0


def test_at_the_end_who_is_quick_is_told_everything_and_the_slow_one_for_a_moment(make_run, caplog):
    run = make_run(on_training_step=0.4, on_status=30.0)
    run.owe(3)
    for _ in range(3):
        run.turn()
    run.owe(500)
    begin_s, run.is_over = run.now_s, True
    run.dispatcher.close()
    assert run.now_s - begin_s <= 2.0 + 0.4
    assert run.quick.steps() == list(range(1, 501))
    missing = 500 - len(run.slow.steps())
    assert run.slow.steps() == list(range(1, 501 - missing))
    assert f"{missing} training steps were not told to Slow" in caplog.text
    assert caplog.text.count("not told") == 1


@pytest.mark.parametrize("first_s", [0.0, 20.0], ids=["new", "after an import"])
def test_an_observer_that_was_slow_once_is_told_everything_at_the_end(make_run, first_s, caplog):
    run = make_run(on_training_step=first_s)
    run.owe(1)
    run.turn()
    run.slow.takes_s.clear()
    run.owe(2000)
    run.is_over = True
    run.dispatcher.close()
    assert run.slow.steps() == list(range(1, 2001))
    assert "not told" not in caplog.text


def test_a_flood_of_messages_is_handed_on_bit_by_bit_and_dropped_at_the_end(make_run, caplog):
    run = make_run()
    seen, slowly_seen = [], []

    def take_slowly(_, message):
        slowly_seen.append(message)
        run.now_s += 0.4

    run.dispatcher.add_handler(EpisodesFinished, take_slowly)
    run.dispatcher.add_handler(EpisodesFinished, lambda _, message: seen.append(message))
    messages = [EpisodesFinished((number,)) for number in range(50)]
    for message in messages:
        run.dispatcher.owe_message(None, message)
    assert run.turn() == pytest.approx(0.4)
    run.is_over = True
    run.dispatcher.close()
    assert seen == messages
    assert slowly_seen == messages[: len(slowly_seen)]
    left = 50 - len(slowly_seen)
    assert f"{left} EpisodesFinished messages were not told to" in caplog.text
    assert "take_slowly" in caplog.text


def test_the_end_and_what_is_told_at_once_is_told_once_however_slow_somebody_is(make_run):
    run = make_run(on_summaries=50.0, on_stop=50.0)
    run.dispatcher.owe("on_summaries", lambda observer: observer.on_summaries("earlier"))
    run.dispatcher.tell("on_summaries", lambda observer: observer.on_summaries("last"))
    run.dispatcher.close()
    run.dispatcher.tell_of_end(lambda observer: observer.on_stop(run))
    for observer in (run.slow, run.quick):
        assert observer.told == [("on_summaries", "last"), ("on_stop", run)]


def test_who_has_raised_is_owed_nothing_and_missed_by_nobody(make_run, caplog):
    run = make_run()

    def fail(runner, number):
        raise ValueError("broken")

    run.slow.on_training_step = fail
    run.owe(10)
    run.turn()
    run.owe(20)
    run.dispatcher.close()
    run.dispatcher.tell_of_end(lambda observer: observer.on_stop(None))
    assert run.failures == [("broken", "Observer Slow, on_training_step")]
    assert run.slow.told == [("on_stop", None)]
    assert run.quick.steps() == list(range(1, 21))
    assert "not told" not in caplog.text


def test_each_call_is_a_block_of_the_runner_and_names_who_is_called(make_run):
    run = make_run(on_status=0.25)
    run.dispatcher.add_handler(TargetReached, lambda *_: setattr(run, "now_s", run.now_s + 0.5))
    run.dispatcher.owe_message(None, TargetReached(0))
    run.owe(0)
    for _ in range(4):
        run.turn()
    blocks = run.timing.snapshot().children
    observers, handlers = blocks["observers"].children, blocks["message_handlers"].children
    assert observers["Slow"].children["on_status"].statistics.total_ns == 0.25e9
    assert set(observers) == {"Slow", "Listening"}
    (handler,) = handlers.values()
    assert handler.key.endswith("<lambda>")
    assert handler.children["TargetReached"].statistics.total_ns == 0.5e9


def test_what_an_observer_has_others_told_meanwhile_is_theirs(make_run, caplog):
    run = make_run(on_summaries=1.0)

    def ask(_):
        run.dispatcher.tell("on_summaries", lambda observer: observer is run.slow and observer.on_summaries(None))

    run.quick.on_status = ask
    for _ in range(6):
        run.owe(0)
        run.turn()
    assert "Observer Slow takes 1.00 s for each on_summaries" in caplog.text
    assert "Listening takes" not in caplog.text
