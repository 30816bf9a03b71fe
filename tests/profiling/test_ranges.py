"""Rules TR1 to TR5 and TR7. Traces are made by `torch.profiler`, written, read back and checked."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import subprocess
import sys
import threading
import warnings

import pytest

import sample_profiler
from sample_profiler import switches
from sample_profiler.profiling import ranges

VARIABLE = "SAMPLE_PROFILER_PROFILING"


@pytest.fixture
def import_ranges(monkeypatch):
    """Import second copies of the two modules, as a process that starts with this value does."""

    def copy(name):
        specification = importlib.util.find_spec(name)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module

    def load(value):
        if value is None:
            monkeypatch.delenv(VARIABLE, raising=False)
        else:
            monkeypatch.setenv(VARIABLE, value)
        monkeypatch.setattr(switches, "ARE_RANGES_ARMED", copy("sample_profiler.switches").ARE_RANGES_ARMED)
        return copy("sample_profiler.profiling.ranges")

    return load


@pytest.fixture
def armed(import_ranges):
    return import_ranges("1")


@pytest.fixture
def unarmed(import_ranges):
    return import_ranges(None)


@pytest.fixture
def trace(tmp_path):
    """Run a function under `torch.profiler` and return the ranges of the written trace, outermost first."""

    def record(function):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            function()
        profiler.export_chrome_trace(str(tmp_path / "trace.json"))
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        ranges_seen = [event for event in events if event.get("cat") == "user_annotation" and event["ph"] == "X"]
        return sorted(ranges_seen, key=lambda event: (event["ts"], -event["dur"]))

    return record


def names(events):
    return [event["name"] for event in events]


def is_inside(inner, outer):
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def plain():
    """Do nothing."""


@pytest.mark.parametrize("value", [None, "", "0", "true", "yes", "01", "1 ", "2"])
def test_tr1_only_1_arms(import_ranges, value):
    assert import_ranges(value).profile_range("step")(plain) is plain


def test_tr1_the_variable_is_read_once_at_import(import_ranges, monkeypatch):
    unarmed = import_ranges(None)
    monkeypatch.setenv(VARIABLE, "1")
    assert unarmed.profile_range("step")(plain) is plain
    armed = import_ranges("1")
    monkeypatch.delenv(VARIABLE)
    assert armed.profile_range("step")(plain) is not plain


@pytest.mark.parametrize(("value", "changed_to", "expected"), [("", "1", "_NoRange"), ("1", "", "_Range")])
def test_tr1_the_import_is_that_of_the_package_whatever_of_it_is_used_first(value, changed_to, expected):
    code = (
        f"import os, sample_profiler; os.environ[{VARIABLE!r}] = {changed_to!r}; "
        "print(type(sample_profiler.profile_range('step')).__name__)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], env={VARIABLE: value}, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == expected


def test_tr1_torch_is_imported_only_when_armed():
    code = "import sys, sample_profiler; sample_profiler.profile_range; print('torch' in sys.modules)"
    for value, expected in (("", "False"), ("1", "True")):
        process = subprocess.run(
            [sys.executable, "-c", code], env={VARIABLE: value}, capture_output=True, text=True, check=True
        )
        assert process.stdout.strip() == expected


def test_tr1_armed_without_torch_is_an_error_that_says_so(import_ranges, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    with pytest.raises(ImportError, match=r"SAMPLE_PROFILER_PROFILING is 1 and PyTorch cannot be imported.*unset"):
        import_ranges("1")


def test_tr2_unarmed_the_decorator_returns_the_very_same_object(unarmed):
    async def wait():
        pass

    class Env:
        def step(self):
            pass

        decorated = unarmed.profile_range("Env.step")(step)

    assert unarmed.profile_range("plain")(plain) is plain
    assert unarmed.profile_range("wait")(wait) is wait
    assert Env.decorated is Env.step


def test_tr3_unarmed_all_ranges_are_one_null_context(unarmed):
    assert unarmed.profile_range("a") is unarmed.profile_range("b")
    with unarmed.profile_range("a") as first, unarmed.profile_range("b") as second:
        assert first is second is None
    with pytest.raises(KeyError, match="lost"), unarmed.profile_range("a"):
        raise KeyError("lost")


def test_tr3_unarmed_ranges_are_in_no_trace(unarmed, trace):
    def work():
        with unarmed.profile_range("quiet"), ranges.profile_range("quiet"):
            unarmed.profile_range("quiet")(plain)()

    assert names(trace(work)) == []


def test_tr4_armed_the_wrapper_keeps_the_function_and_its_metadata(armed):
    wrapped = armed.profile_range("step")(plain)
    assert wrapped.__wrapped__ is plain
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__module__) == ("plain", "Do nothing.", __name__)


def test_tr4_armed_ranges_are_in_the_trace_and_nest_as_the_code_does(armed, trace):
    @armed.profile_range("Env.step")
    def step(number):
        with armed.profile_range("Env.wrapper"):
            return number + 1

    def rollout():
        with armed.profile_range("rollout"):
            assert [step(number) for number in range(3)] == [1, 2, 3]

    events = trace(rollout)
    assert names(events) == ["rollout"] + ["Env.step", "Env.wrapper"] * 3
    assert all(is_inside(event, events[0]) for event in events[1:])
    assert all(is_inside(events[number + 1], events[number]) for number in (1, 3, 5))


def test_tr4_a_range_inside_itself_and_one_left_by_an_exception(armed, trace):
    @armed.profile_range("fails")
    def fail():
        raise KeyError("lost")

    def work():
        again = armed.profile_range("again")
        with again, again:
            pass
        with pytest.raises(KeyError, match="lost"), armed.profile_range("outer"):
            fail()
        with armed.profile_range("after"):
            pass

    events = trace(work)
    assert names(events) == ["again", "again", "outer", "fails", "after"]
    assert is_inside(events[1], events[0])
    assert not is_inside(events[4], events[2])


def test_tr4_armed_async_functions_stay_async_functions(armed, trace):
    @armed.profile_range("fetch")
    async def fetch():
        await asyncio.sleep(0)
        return 5

    def work():
        assert asyncio.run(fetch()) == 5

    assert asyncio.iscoroutinefunction(fetch)
    assert names(trace(work)) == ["fetch"]


def test_tr4_armed_ranges_stand_on_both_sides_of_staticmethod_and_classmethod(armed, trace):
    class Env:
        @armed.profile_range("static above")
        @staticmethod
        def double(number):
            return 2 * number

        @armed.profile_range("class above")
        @classmethod
        def name(cls):
            return cls.__name__

        @staticmethod
        @armed.profile_range("static below")
        def triple(number):
            return 3 * number

        @classmethod
        @armed.profile_range("class below")
        async def wait(cls):
            return cls.__name__

    def work():
        for owner in (Env, Env()):
            assert (owner.double(2), owner.name(), owner.triple(2), asyncio.run(owner.wait())) == (4, "Env", 6, "Env")

    assert names(trace(work)) == ["static above", "class above", "static below", "class below"] * 2


def test_tr4_armed_without_a_profiler_ranges_change_nothing(armed):
    results = []
    double = armed.profile_range("double")(lambda value: 2 * value)
    thread = threading.Thread(target=lambda: results.append(double(4)))
    thread.start()
    thread.join()
    assert results == [8]


def test_tr5_armed_ranges_can_be_switched_off_and_on(armed, trace):
    work = armed.profile_range("decorated")(plain)

    def toggle():
        for is_enabled, name in ((False, "off"), (True, "on")):
            armed.set_profiling_enabled(is_enabled)
            work()
            with armed.profile_range(name):
                pass

    assert names(trace(toggle)) == ["decorated", "on"]


def test_tr5_a_switch_inside_a_range_leaves_nothing_open(armed, trace):
    def toggle():
        with armed.profile_range("on"):
            armed.set_profiling_enabled(False)
        with armed.profile_range("off"):
            armed.set_profiling_enabled(True)
        with armed.profile_range("after"):
            pass

    events = trace(toggle)
    assert names(events) == ["on", "after"]
    assert not is_inside(events[1], events[0])


def test_tr5_unarmed_switching_on_warns_and_does_nothing(unarmed):
    with pytest.warns(UserWarning, match=r"ranges stay off: SAMPLE_PROFILER_PROFILING was None"):
        unarmed.set_profiling_enabled(True)
    assert unarmed.profile_range("step")(plain) is plain
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unarmed.set_profiling_enabled(False)


def test_tr5_the_public_names_are_these():
    assert sample_profiler.profile_range is ranges.profile_range
    assert sample_profiler.set_profiling_enabled is ranges.set_profiling_enabled


@pytest.mark.parametrize(("value", "expected"), [("1", "_Range"), ("0", "_NoRange")])
def test_tr7_the_variable_reaches_spawned_processes(monkeypatch, value, expected):
    monkeypatch.setenv(VARIABLE, value)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seen = pool.apply(eval, ("type(__import__('sample_profiler').profile_range('step')).__name__",))
        pool.close()
        pool.join()
    assert seen == expected
