"""The event loop: who gets what, in which order, when; on a clock that moves only when a test says so."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import pytest

from sample_profiler.profiling import Timing, get_timing, set_timing
from sample_profiler.runtime.loop import event_loop
from sample_profiler.runtime.loop.event_loop import EventLoop, Input, LocalWaiter, PipeWaiter, StalledError, Timer
from sample_profiler.runtime.messages.channels import LocalChannel, PipeChannel, make_pipe


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(event_loop, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture(autouse=True)
def _restore_timing():
    previous = get_timing()
    yield
    set_timing(previous, process_wide=True)


class Recorder:
    """A component that writes down what happens to it in a list that it may share with others."""

    def __init__(self, name="recorder", num_channels=1, make_channel=LocalChannel, log=None):
        self.name = name
        self.timing = Timing(name)
        self.channels = [make_channel() for _ in range(num_channels)]
        self.log = [] if log is None else log
        self.to_do = {}
        self.my_timers = []

    def inputs(self):
        return [Input(channel, lambda v, i=i: self.note(f"input {i}", v)) for i, channel in enumerate(self.channels)]

    def timers(self):
        return self.my_timers

    def start(self):
        self.note("start", [])

    def wait_block(self):
        return "wait_for_tests"

    def finish(self):
        raise AssertionError("the loop does not finish components")

    def note(self, what, values):
        self.log.append((self.name, what, values))
        assert get_timing() is self.timing
        self.to_do.get(what, lambda: None)()


class ManualWaiter:
    """Has ready what a test says, turn by turn; moves the clock by what the loop is willing to wait."""

    def __init__(self, clock, turns=()):
        self.clock = clock
        self.turns = list(turns)
        self.timeouts_s = []

    def __call__(self, sources):
        self.sources = sources
        return self

    def wait(self, timeout_s):
        self.timeouts_s.append(timeout_s)
        self.clock.now_s += max(0.0, timeout_s)
        return self.turns.pop(0) if self.turns else []


def stop_after(loop, num_calls):
    """Return a callback that stops a loop when it has been called so many times."""
    calls = []

    def call():
        calls.append(None)
        if len(calls) >= num_calls:
            loop().stop()

    return call


def test_components_start_in_order_before_anything_is_dispatched():
    log = []
    first, second = Recorder("first", log=log), Recorder("second", log=log)
    first.channels[0].send([1])
    loop = EventLoop([first, second], LocalWaiter)
    first.to_do["input 0"] = loop.stop
    loop.run()
    assert log == [("first", "start", []), ("second", "start", []), ("first", "input 0", [1])]


def test_what_is_ready_is_handled_in_the_order_of_components_and_inputs():
    log = []
    components = [Recorder(name, num_channels=2, log=log) for name in "ab"]
    for component in reversed(components):
        for number in (1, 0):
            component.channels[number].send([number])
    loop = EventLoop(components, LocalWaiter)
    components[1].to_do["input 1"] = loop.stop
    loop.run()
    assert [entry[:2] for entry in log[2:]] == [(name, f"input {number}") for name in "ab" for number in (0, 1)]


def test_everything_that_came_is_handed_over_in_one_call_and_never_nothing():
    component = Recorder(num_channels=2)
    component.channels[0].send([1, 2])
    component.channels[0].send([3])
    component.channels[1].send([4])

    def take_the_others():  # another reader was faster: the loop has been told of something that is gone
        component.channels[1].receive()
        component.channels[0].send([5])
        component.to_do["input 0"] = loop.stop

    component.to_do["input 0"] = take_the_others
    loop = EventLoop([component], LocalWaiter)
    loop.run()
    assert component.log[1:] == [("recorder", "input 0", [1, 2, 3]), ("recorder", "input 0", [5])]


def test_a_handler_may_write_to_its_own_channel():
    component = Recorder()
    component.channels[0].send([0])
    loop = EventLoop([component], LocalWaiter)

    def count():
        last = component.log[-1][2][0]
        component.channels[0].send([last + 1])
        if last == 3:
            loop.stop()

    component.to_do["input 0"] = count
    loop.run()
    assert [values for _, _, values in component.log[1:]] == [[0], [1], [2], [3]]


def test_a_stopped_loop_leaves_what_it_has_not_handled_where_it_is():
    component = Recorder(num_channels=2)
    component.channels[0].send([1])
    component.channels[1].send([2])
    loop = EventLoop([component], LocalWaiter)
    component.to_do["input 0"] = loop.stop
    loop.run()
    assert component.log[-1] == ("recorder", "input 0", [1])
    assert component.channels[1].pending() == [2]
    assert loop.unhandled == [component.channels[1]]
    again = EventLoop([component], LocalWaiter)
    component.channels[0].send([3])
    component.to_do["input 1"] = again.stop
    again.begin_with(loop.unhandled)
    again.run()
    assert component.log[-1] == ("recorder", "input 1", [2]), "it goes on where the other one was stopped"


def test_a_loop_stopped_while_starting_dispatches_nothing():
    component = Recorder()
    component.channels[0].send([1])
    loop = EventLoop([component], LocalWaiter)
    component.to_do["start"] = loop.stop
    loop.run()
    assert component.log == [("recorder", "start", [])]


def test_a_loop_stopped_while_starting_starts_nobody_else():
    log = []
    first, second = Recorder("first", log=log), Recorder("second", log=log)
    loop = EventLoop([first, second], LocalWaiter)
    first.to_do["start"] = loop.stop
    loop.run()
    assert log == [("first", "start", [])]


def test_a_serial_run_in_which_nobody_has_anything_to_do_is_an_error_at_once():
    component = Recorder()
    component.channels[0].send([1])
    with pytest.raises(StalledError, match="stalled"):
        EventLoop([component], LocalWaiter).run()
    assert component.log[-1] == ("recorder", "input 0", [1])


def test_the_loop_knows_whose_turn_it_is_when_somebody_raises():
    components = [Recorder(name) for name in "abc"]
    components[1].channels[0].send([1])

    def fail():
        raise ZeroDivisionError

    components[1].to_do["input 0"] = fail
    loop = EventLoop(components, LocalWaiter)
    with pytest.raises(ZeroDivisionError):
        loop.run()
    assert loop.active is components[1]


def test_the_wait_is_measured_in_the_tree_of_the_first_component():
    components = [Recorder(name) for name in "ab"]
    components[1].channels[0].send([1])
    loop = EventLoop(components, LocalWaiter)
    components[1].to_do["input 0"] = loop.stop
    loop.run()
    assert "wait_for_tests" in components[0].timing
    assert list(components[1].timing) == ["receive"]


def test_the_beat_comes_with_every_turn():
    beats = []
    component = Recorder()
    component.channels[0].send([1])
    component.to_do["input 0"] = lambda: component.channels[0].send([1]) if len(beats) < 3 else loop.stop()
    loop = EventLoop([component], LocalWaiter, beat=lambda: beats.append(None))
    loop.run()
    assert len(beats) == 3


def test_timers_fire_first_after_one_interval_and_then_at_each(clock):
    waiter, component, fired_s = ManualWaiter(clock), Recorder(), []
    stop = stop_after(lambda: loop, 4)
    component.my_timers = [Timer(2.5, lambda: (fired_s.append(clock.now_s), stop()))]
    loop = EventLoop([component], waiter)
    loop.run()
    assert fired_s == [102.5, 105.0, 107.5, 110.0]


def test_the_loop_waits_until_the_next_timer_and_never_longer_than_a_second(clock):
    waiter, component = ManualWaiter(clock), Recorder()
    component.my_timers = [Timer(0.25, lambda: None), Timer(1.125, lambda: loop.stop())]
    loop = EventLoop([component], waiter)
    loop.run()
    assert waiter.timeouts_s == [0.25, 0.25, 0.25, 0.25, 0.125]

    waiter, component = ManualWaiter(clock), Recorder()
    component.my_timers = [Timer(2.5, lambda: loop.stop())]
    loop = EventLoop([component], waiter)
    loop.run()
    assert waiter.timeouts_s == [1.0, 1.0, 0.5]


def test_a_loop_without_timers_looks_around_every_second(clock):
    waiter = ManualWaiter(clock)
    loop = EventLoop([Recorder()], waiter, beat=stop_after(lambda: loop, 3))
    loop.run()
    assert waiter.timeouts_s == [1.0, 1.0, 1.0]


def test_missed_intervals_are_not_made_up_for(clock):
    class LateOnce(ManualWaiter):
        def wait(self, timeout_s):
            ready = super().wait(timeout_s)
            self.clock.now_s += 10 if len(self.timeouts_s) == 1 else 0  # a handler took its time
            return ready

    component, fired_s = Recorder(), []
    stop = stop_after(lambda: loop, 3)
    component.my_timers = [Timer(1.0, lambda: (fired_s.append(clock.now_s), stop()))]
    loop = EventLoop([component], LateOnce(clock))
    loop.run()
    assert fired_s == [111.0, 112.0, 113.0]


def test_timers_run_as_their_component_and_not_after_the_loop_was_stopped(clock):
    components = [Recorder(name) for name in "ab"]
    components[0].my_timers = [Timer(1.0, lambda: None)]
    components[1].my_timers = [
        Timer(1.0, lambda: (components[1].note("timer", []), loop.stop())),
        Timer(1.0, lambda: components[1].note("later", [])),
    ]
    loop = EventLoop(components, ManualWaiter(clock))
    loop.run()
    assert components[1].log == [("b", "start", []), ("b", "timer", [])]
    assert loop.active is components[1]


def test_pipes_wake_the_loop_one_by_one_and_together():
    sources = [PipeChannel() for _ in range(3)]
    waiter = PipeWaiter(sources)
    assert waiter.wait(0) == []
    sources[2].send([1])
    assert waiter.wait(10) == [sources[2]]
    sources[0].send([1])
    assert set(waiter.wait(10)) == {sources[0], sources[2]}
    sources[2].receive()
    assert waiter.wait(10) == [sources[0]]


def test_a_waiter_goes_on_where_fewer_files_are_allowed_than_it_listens_to(caplog):
    channel = PipeChannel()
    waiter = PipeWaiter([channel, PipeChannel()])
    channel.send([3])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for _ in range(2):  # whoever lowers it does so again and again
            resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
            assert waiter.wait(1.0) == [channel]
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == limits[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert caplog.text.count("The limit of open files was lowered") == 1


def test_a_negative_wait_does_not_wait_for_ever():
    assert PipeWaiter([PipeChannel()]).wait(-1.0) == []


def test_the_end_of_a_pipe_wakes_the_loop():
    read, write = make_pipe()
    waiter = PipeWaiter([read])
    assert waiter.wait(0) == []
    write.close()
    assert waiter.wait(10) == [read]
    read.close()


def test_a_loop_over_pipes_serves_several_components_as_one_over_queues_does():
    log = []
    components = [Recorder(name, make_channel=PipeChannel, log=log) for name in "ab"]
    components[1].channels[0].send([7])
    loop = EventLoop(components, PipeWaiter)
    components[1].to_do["input 0"] = lambda: components[0].channels[0].send([8, 9])
    components[0].to_do["input 0"] = loop.stop
    loop.run()
    assert log[2:] == [("b", "input 0", [7]), ("a", "input 0", [8, 9])]


def test_after_a_refresh_the_loop_listens_to_what_there_is_now():
    component, other = Recorder("one", num_channels=2), LocalChannel()
    first, second = component.channels
    loop = EventLoop([component], LocalWaiter)

    def exchange():
        component.to_do.clear()
        component.channels = [other]
        loop.control.refresh()
        second.send([2])
        other.send([3])

    component.to_do["input 0"] = exchange
    first.send([1])
    second.send([9])  # ready in the same turn in which nobody listens to it any more
    with pytest.raises(StalledError):
        loop.run()
    assert component.log == [("one", "start", []), ("one", "input 0", [1]), ("one", "input 0", [3])]
