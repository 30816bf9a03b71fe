"""A component of one's own has its turns, its blocks and its end, whatever it raises."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.run.extensions.component import RunComponent
from sample_profiler.run.extensions.host import ComponentHost
from sample_profiler.run.extensions.mailboxes import LocalMailbox
from sample_profiler.run.extensions.run_access import RunAccess
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.messages.heartbeats import Heartbeat


class Mine(RunComponent):
    def __init__(self, raises_in=""):
        self.raises_in, self.calls = raises_in, []

    def note(self, call):
        self.calls.append(call)
        if call == self.raises_in:
            raise ValueError(call)

    def on_start(self):
        self.note("start")

    def timers(self):
        return [(1.0, lambda: self.note("timer"))]

    def gauges(self):
        return {"calls": float(len(self.calls))}

    def hear(self, payload):
        self.note(payload)

    def on_stop(self):
        self.note("stop")


class Hosted:
    def __init__(self, own, clock=lambda: 0.0):
        self.own, self.reports, self.mailbox = own, LocalReports(), LocalMailbox("Mine", lambda: 0.0)
        self.access = SimpleNamespace(is_starting=True)
        self.host = ComponentHost(own, "Mine", Timing("t"), self.access, self.mailbox.mail(), self.reports, clock)

    def hear(self, *payloads):
        for payload in payloads:
            self.mailbox.put(("training_step", "hear", payload))

    def turn(self):
        for each in self.host.inputs():
            if letters := each.source.receive(each.most):
                each.handle(letters)


def test_what_it_hears_is_a_block_of_its_tree():
    hosted = Hosted(Mine())
    assert hosted.host.gauges() == {}, "on_start makes what they measure"
    hosted.host.start()
    hosted.hear("a", "b")
    hosted.turn()
    assert hosted.own.calls == ["start", "a"]
    hosted.host.timers()[0].callback()
    hosted.host.finish()
    assert hosted.own.calls == ["start", "a", "timer", "b", "stop"]
    assert hosted.host.gauges() == {"calls": 5.0}
    tree = hosted.host.timing.to_dict()["children"]
    assert tree["slots"]["children"]["training_step"]["count"] == 2


@pytest.mark.parametrize("where", ["start", "timer", "a"])
def test_one_that_may_be_lost_is_called_no_more_and_said_to_have_failed(where):
    hosted = Hosted(Mine(where))
    hosted.own.may_be_lost = True
    timers = hosted.host.timers()
    hosted.host.start()
    hosted.hear("a")
    hosted.turn()
    timers[0].callback()
    hosted.hear("b")
    hosted.turn()
    hosted.host.finish()
    (failure,) = hosted.reports.receive()
    assert (failure.component, failure.message) == ("Mine", f"ValueError: {where}")
    assert "b" not in hosted.own.calls
    assert hosted.own.calls.index(where) >= len(hosted.own.calls) - 2
    assert ("stop" in hosted.own.calls) is (where != "start")


def test_its_signs_of_life_are_of_a_beginner_until_it_has_what_it_needs():
    reports, seen = LocalReports(), []
    access = RunAccess("Mine", 0, None, reports)

    class Beating(Mine):
        def note(self, call):
            self.run.beat(patience_s=len(seen))
            seen.append(call)

    host = ComponentHost(Beating(), "Mine", Timing("t"), access, LocalMailbox("Mine"), reports)
    host.start()
    host.timers()[0].callback()
    assert seen == ["start", "timer"]
    assert reports.receive() == [Heartbeat("Mine", 0, is_starting=True), Heartbeat("Mine", 1)]


def test_others_raise_and_are_let_go_all_the_same():
    hosted = Hosted(Mine("a"))
    hosted.host.start()
    hosted.hear("a", "b")
    with pytest.raises(ValueError, match="a"):
        hosted.turn()
    hosted.host.finish()
    assert hosted.own.calls == ["start", "a", "stop"]


def test_what_comes_at_the_end_while_it_still_hears_is_heard_too():
    class Slow(Mine):
        def note(self, call):
            super().note(call)
            if call == "a":
                hosted.hear("b")  # there was no room for it before

    hosted = Hosted(Slow())
    hosted.host.start()
    hosted.hear("a")
    hosted.host.finish()
    assert hosted.own.calls == ["start", "a", "b", "stop"]


def test_the_end_does_not_wait_for_what_has_not_been_heard(caplog):
    times = iter([0.0, 0.5, 1.5])
    hosted = Hosted(Mine(), lambda: next(times))
    hosted.host.start()
    hosted.hear("a", "b", "c")
    hosted.host.finish()
    assert hosted.own.calls == ["start", "a", "stop"]
    assert "2 signals were not told to Mine: the run has ended, and did not wait for it" in caplog.text
