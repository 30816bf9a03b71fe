"""Environments that profile themselves while they step, with every profiler that there is, and what it has to see.

`SelfProfiling` is what such an environment does in `reset` and `step`. It knows how often it has called `work` while
its profiler was on, and so what this must have seen, whoever else looks at the process.
"""

from __future__ import annotations

import contextlib
import cProfile
import importlib.util
import sys
import threading
import time
from collections import Counter
from pathlib import Path

KINDS = ("step", "running", "reset")
"""When the profiler is on: from the begin to the end of each step; over all steps; from a reset to some later step."""

NUM_LEAVES = 3
STEPS_FROM_RESET = 3
MEASURED = ("work", "leaf")
PACKAGE = str(Path(__file__).parents[3] / "sample_profiler")
SPIN_S = 0.0002


def work():
    for _ in range(NUM_LEAVES):
        leaf()


def leaf():
    until_s = time.perf_counter() + SPIN_S
    while time.perf_counter() < until_s:
        pass


class Counting:
    """What has seen calls of functions, by name; those of the framework apart."""

    def __init__(self):
        self.seen = Counter()

    def note(self, file, name, number=1):
        if file.startswith(PACKAGE):
            self.seen["framework"] += number
        elif file == __file__ and name in MEASURED:
            self.seen[name] += number

    def hook(self, frame, event, argument):
        if event == "call":
            self.note(frame.f_code.co_filename, frame.f_code.co_name)


class CProfile:
    """One object for each time, as most people use it."""

    def begin(self):
        self.profile = cProfile.Profile()
        self.profile.enable()

    def end(self):
        self.profile.disable()
        counting = Counting()
        for entry in self.profile.getstats():
            if not isinstance(entry.code, str):
                counting.note(entry.code.co_filename, entry.code.co_name, entry.callcount)
        return counting.seen


class Yappi:
    def __init__(self):
        import yappi

        self.yappi = yappi

    def begin(self):
        self.yappi.start()

    def end(self):
        self.yappi.stop()
        counting = Counting()
        for found in self.yappi.get_func_stats():
            counting.note(found.module, found.name, found.ncall)
        self.yappi.clear_stats()
        return counting.seen


class YappiThatKeeps(Yappi):
    """Clears what yappi has before it begins, and not at its end."""

    def begin(self):
        self.yappi.clear_stats()
        super().begin()

    def end(self):
        self.yappi.stop()
        counting = Counting()
        for found in self.yappi.get_func_stats():
            counting.note(found.module, found.name, found.ncall)
        return counting.seen

    def leave(self):
        self.yappi.clear_stats()


class Pyinstrument:
    """Has seen the functions or not; looks are no counts."""

    is_exact = False

    def begin(self):
        from pyinstrument import Profiler

        self.profiler = Profiler(interval=0.0001, async_mode="disabled")
        self.profiler.start()

    def end(self):
        session = self.profiler.stop()
        counting = Counting()
        for stack, _ in session.frame_records:
            for frame in stack:
                name, file, _ = frame.split("\x01")[0].split("\0")
                if name in MEASURED:
                    counting.note(file, name)
        return counting.seen


class Torch:
    """Operators and ranges: each `work` is one of both."""

    pause_s = 0.05  # before each episode: what goes on for long has millions of events to look through
    measured = ("work", "aten::hypot")  # an operator that nobody else uses

    def profile(self, **options):
        from torch.profiler import ProfilerActivity, profile

        return profile(activities=[ProfilerActivity.CPU], **options)

    def begin(self):
        self.profiler = self.profile()
        self.profiler.__enter__()

    def work(self):
        import torch

        with torch.profiler.record_function("work"):
            torch.ones(2).hypot(torch.ones(2))

    def end(self):
        self.profiler.__exit__(None, None, None)
        return Counter(event.name for event in self.profiler.events() if event.name in self.measured)


class TorchAutograd(Torch):
    def profile(self):
        from torch.autograd.profiler import profile

        return profile()

    def end(self):
        self.profiler.__exit__(None, None, None)
        return Counter(event.name for event in self.profiler.function_events if event.name in self.measured)


class TorchWithStacks(Torch):
    def __init__(self):
        # The first one in a process has names of what PyTorch imports meanwhile that are garbage.
        with self.profile():
            pass

    def profile(self):
        return super().profile(with_stack=True)


class TorchWithSchedule(Torch):
    """Warms up for one `work`, which it does not see."""

    def profile(self):
        from torch.profiler import schedule

        self.has_warmed_up = False
        return super().profile(schedule=schedule(wait=0, warmup=1, active=1_000_000))

    def work(self):
        super().work()
        if not self.has_warmed_up:
            self.has_warmed_up = True
            self.profiler.step()

    def end(self):
        return super().end() + Counter(self.measured * self.has_warmed_up)


class Coverage:
    """Has seen lines or not."""

    is_exact = False

    def begin(self):
        import coverage

        self.coverage = coverage.Coverage(data_file=None, include=[__file__], config_file=False)
        self.coverage.start()

    def end(self):
        self.coverage.stop()
        lines = self.coverage.get_data().lines(__file__) or ()
        return Counter(
            function.__name__
            for function in (work, leaf)
            if any(line in lines for _, _, line in function.__code__.co_lines() if line != _first_line(function))
        )


def _first_line(function):
    return function.__code__.co_firstlineno


class SetTrace(Counting):
    def begin(self):
        self.seen = Counter()
        self.before = sys.gettrace()
        sys.settrace(self.hook)

    def end(self):
        sys.settrace(self.before)
        return self.seen


class SetProfile(Counting):
    """Puts back what was there."""

    def begin(self):
        self.seen = Counter()
        self.before = sys.getprofile()
        sys.setprofile(self.hook)

    def end(self):
        assert sys.getprofile() == self.hook
        sys.setprofile(self.before)
        assert sys.getprofile() is self.before
        return self.seen


class SetProfileBound(SetProfile):
    """Had the function before anybody could put another one in its place."""

    getprofile = staticmethod(sys.getprofile)

    def begin(self):
        self.seen = Counter()
        self.before = self.getprofile()
        sys.setprofile(self.hook)

    def end(self):
        sys.setprofile(self.before)
        return self.seen


class SetProfileForgetful(Counting):
    """Leaves none behind, whatever was there."""

    def begin(self):
        self.seen = Counter()
        sys.setprofile(self.hook)

    def end(self):
        sys.setprofile(None)
        return self.seen


class ThreadingSetProfile(Counting):
    """Works in a thread of its own, which the hook is for."""

    def begin(self):
        self.seen = Counter()
        self.before = threading.getprofile()
        threading.setprofile(self.hook)

    def work(self):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    def end(self):
        threading.setprofile(self.before)
        return self.seen


class HookedThread(Counting):
    """Has a thread that lives on between steps, with a hook of its own."""

    def begin(self):
        self.seen = Counter()
        self.wanted, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.is_over = False
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        self.work()
        self.seen.clear()

    def serve(self):
        sys.setprofile(self.hook)
        while True:
            self.wanted.acquire()
            if self.is_over:
                break
            work()
            self.done.release()
        assert sys.getprofile() == self.hook
        sys.setprofile(None)

    def work(self):
        self.wanted.release()
        self.done.acquire()

    def end(self):
        self.is_over = True
        self.wanted.release()
        self.thread.join()
        return self.seen


class Monitoring(Counting):
    """Insists on one place of `sys.monitoring`."""

    place = 0

    def begin(self):
        self.seen = Counter()
        monitoring = sys.monitoring
        assert monitoring.get_tool(self.place) is None
        monitoring.use_tool_id(self.place, "environment")
        monitoring.register_callback(self.place, monitoring.events.PY_START, self.note_start)
        monitoring.set_events(self.place, monitoring.events.PY_START)

    def note_start(self, code, offset):
        self.note(code.co_filename, code.co_name)

    def end(self):
        monitoring = sys.monitoring
        monitoring.set_events(self.place, 0)
        monitoring.register_callback(self.place, monitoring.events.PY_START, None)
        assert monitoring.get_tool(self.place) == "environment"
        monitoring.free_tool_id(self.place)
        return self.seen


class MonitoringInTurn(Monitoring):
    """Insists on each of the places, one after another."""

    place = -1

    def begin(self):
        self.place = (self.place + 1) % 6
        super().begin()


class AllOfMonitoring:
    """Takes all places."""

    def begin(self):
        self.all = [type(f"Place{place}", (Monitoring,), {"place": place})() for place in range(6)]
        for one in self.all:
            one.begin()

    def end(self):
        seen = [one.end() for one in self.all]
        return next((one for one in seen if one != seen[0]), seen[0])


PROFILERS = {
    "cprofile": CProfile,
    "yappi": Yappi,
    "yappi, keeps": YappiThatKeeps,
    "pyinstrument": Pyinstrument,
    "torch": Torch,
    "torch.autograd": TorchAutograd,
    "torch, stacks": TorchWithStacks,
    "torch, schedule": TorchWithSchedule,
    "coverage": Coverage,
    "settrace": SetTrace,
    "setprofile": SetProfile,
    "setprofile, bound": SetProfileBound,
    "setprofile, forgetful": SetProfileForgetful,
    "threading.setprofile": ThreadingSetProfile,
    "thread with a hook": HookedThread,
}
if hasattr(sys, "monitoring"):
    PROFILERS |= {
        f"monitoring {place}": type(f"Monitoring{place}", (Monitoring,), {"place": place}) for place in range(6)
    }
    PROFILERS["monitoring, in turn"] = MonitoringInTurn
    PROFILERS["monitoring, all"] = AllOfMonitoring


def usable_profilers():
    """Return the names of those that can be used here."""
    modules = ("yappi", "pyinstrument", "torch", "coverage")
    missing = {module for module in modules if importlib.util.find_spec(module) is None}
    return [name for name in PROFILERS if name.split(",")[0].split(".")[0] not in missing]


class SelfProfiling:
    """What an environment does that profiles itself.

    Args:
        name: of a profiler.
        kind: one of `KINDS`.

    Attributes:
        results: how many times its profiler has told of something.
        problems: what that was, where it was not what it has to be.
    """

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        self.profiler = PROFILERS[name]()
        self.measured = getattr(self.profiler, "measured", MEASURED)
        self.results = 0
        self.problems = []
        self.is_on = False
        self.num_steps = 0

    def reset(self):
        time.sleep(getattr(self.profiler, "pause_s", 0))
        if self.kind == "reset" and not self.is_on:
            self.begin()

    def step(self):
        if self.kind != "reset" and not self.is_on:
            self.begin()
        if self.is_on:
            self.num_steps += 1
            getattr(self.profiler, "work", work)()
        if self.kind == "step" or (self.kind == "reset" and self.is_on and self.num_steps == STEPS_FROM_RESET):
            self.end()

    def close(self):
        if self.is_on:
            self.end()
        if hasattr(self.profiler, "leave"):
            self.profiler.leave()

    def begin(self):
        self.num_steps = 0
        self.is_on = True
        self.profiler.begin()

    def end(self):
        self.is_on = False
        seen = self.profiler.end()
        self.results += 1
        expected = Counter(dict.fromkeys(self.measured, self.num_steps))
        if self.measured is MEASURED:
            expected["leaf"] *= NUM_LEAVES
        framework = seen.pop("framework", 0)
        if not getattr(self.profiler, "is_exact", True):
            seen, expected = (Counter(dict.fromkeys(+counts, 1)) for counts in (seen, expected))
        if seen != expected:
            self.problems.append(f"{self.name}, {self.kind}: {dict(seen)} instead of {dict(expected)}")
        if framework and self.kind == "step" and self.name != "monitoring, all":
            self.problems.append(f"{self.name}, {self.kind}: {framework} calls of the framework's in a step")


def nothing_is_on():
    """Say what is still on in this thread; else nothing."""
    left = [sys.getprofile(), sys.gettrace(), threading.getprofile()]
    with contextlib.suppress(AttributeError):
        left += [sys.monitoring.get_tool(place) for place in range(6)]
    return [one for one in left if one is not None]
