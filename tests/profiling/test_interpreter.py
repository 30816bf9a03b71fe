"""What is needed of the interpreter, compiled and in pure Python: looks at stacks, hooks, callbacks of one thread."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from sample_profiler.profiling import interpreter
from sample_profiler.profiling.interpreter import (
    GETPROFILE,
    Looks,
    call_keeping_hooks,
    find_hook,
    is_any_thread_hooked,
    make_getprofile,
)


@pytest.fixture(params=["python", "compiled"])
def twin(request, monkeypatch):
    if request.param == "compiled" and not interpreter._IS_COMPILED:
        pytest.skip("there was no compiler")
    monkeypatch.setattr(interpreter, "_IS_COMPILED", request.param == "compiled")
    return request.param


@pytest.fixture(autouse=True)
def _no_hook_is_left():
    yield
    assert GETPROFILE() is None


def spin_until(is_over):
    deadline_s = time.monotonic() + 30
    while not is_over():
        assert time.monotonic() < deadline_s


def names_of(looks):
    return {code.co_name for _, stack in looks for code in stack}


def hook(*_):
    pass


def test_looks_see_what_the_thread_does(twin):
    looks = Looks(0.001)
    started_ns = time.perf_counter_ns()
    looks.start()
    spin_until(lambda: time.perf_counter_ns() > started_ns + 100_000_000)
    found = looks.stop()
    lasted_ns = time.perf_counter_ns() - started_ns
    assert found
    assert all(ns >= 0 for ns, _ in found)
    assert sum(ns for ns, _ in found) <= lasted_ns
    assert "spin_until" in names_of(found)
    stack = next(stack for _, stack in found if stack[-1].co_name in ("spin_until", "<lambda>"))
    names = [code.co_name for code in stack]
    assert names.index("test_looks_see_what_the_thread_does") < names.index("spin_until"), "the outer ones first"


def test_looks_can_be_had_again_and_begin_anew(twin):
    for _ in range(3):
        looks = Looks(0.0001)
        looks.start()
        looks.stop()
    looks = Looks(0.001)
    looks.start()
    assert "spin_until" not in names_of(looks.stop())


def test_looks_at_another_thread_than_the_main_one(twin):
    found = []

    def look_at_oneself():
        looks = Looks(0.001)
        looks.start()
        until_s = time.monotonic() + 0.1
        spin_until(lambda: time.monotonic() > until_s)
        found.extend(looks.stop())

    thread = threading.Thread(target=look_at_oneself)
    thread.start()
    thread.join()
    assert {"look_at_oneself", "spin_until"} <= names_of(found)


def test_looks_are_in_nobodys_list_of_threads(twin):
    before = threading.enumerate()
    looks = Looks(0.001)
    looks.start()
    assert threading.enumerate() == before
    looks.stop()


def test_looks_leave_the_patience_of_threads_as_it_is_or_as_somebody_sets_it(twin):
    before_s = sys.getswitchinterval()
    try:
        for wanted_s in (None, 0.002):
            looks = Looks(0.0005)
            looks.start()
            if wanted_s is not None:
                sys.setswitchinterval(wanted_s)
            until_s = time.monotonic() + 0.05
            spin_until(lambda until_s=until_s: time.monotonic() > until_s)
            looks.stop()
            assert sys.getswitchinterval() == pytest.approx(wanted_s or before_s)
    finally:
        sys.setswitchinterval(before_s)


def test_two_cannot_look_at_the_main_thread_at_once():
    if not interpreter._IS_COMPILED:
        pytest.skip("there was no compiler")
    first = Looks(0.001)
    first.start()
    with pytest.raises(RuntimeError, match="somebody looks already"):
        Looks(0.001).start()
    first.stop()


def test_a_hook_is_found_and_gone_again(twin):
    assert find_hook() is None
    assert not is_any_thread_hooked()
    sys.setprofile(hook)
    found, is_any = find_hook(), is_any_thread_hooked()
    sys.setprofile(None)
    assert found is not None
    assert is_any
    assert find_hook() is None


def test_hooks_of_others_are_kept_by_what_takes_them_away(twin):
    seen = []

    def noting_hook(frame, event, argument):
        seen.append((event, frame.f_code.co_name))

    def take_away():
        sys.setprofile(None)

    sys.setprofile(noting_hook)
    num_kept = call_keeping_hooks(take_away, None)
    kept = GETPROFILE()
    sys.setprofile(None)
    assert num_kept == 1
    assert kept is noting_hook
    assert ("call", "take_away") not in seen, "else its end would be missing"


def test_a_hook_of_ours_is_not_kept(twin):
    sys.setprofile(hook)
    own = find_hook()
    assert call_keeping_hooks(lambda: sys.setprofile(None), own) == 0
    assert GETPROFILE() is None


def test_an_error_of_what_is_called_is_raised_and_hooks_are_kept(twin):
    if twin == "python":
        pytest.skip("it is not as good")
    sys.setprofile(hook)
    try:
        with pytest.raises(ZeroDivisionError):
            call_keeping_hooks(lambda: 1 / 0, None)
        assert GETPROFILE() is hook
    finally:
        sys.setprofile(None)


def test_hooks_of_other_threads_are_seen_and_kept():
    if not interpreter._IS_COMPILED:
        pytest.skip("there was no compiler")
    is_hooked, is_over = threading.Event(), threading.Event()
    left = []

    def be_hooked():
        sys.setprofile(hook)
        is_hooked.set()
        is_over.wait()
        left.append(GETPROFILE())

    thread = threading.Thread(target=be_hooked)
    thread.start()
    is_hooked.wait()
    assert find_hook() is None
    assert is_any_thread_hooked()
    assert call_keeping_hooks(lambda: None, None) == 1
    is_over.set()
    thread.join()
    assert left == [hook]


def test_a_hidden_hook_is_not_shown_and_others_are(twin):
    sys.setprofile(hook)
    getprofile = make_getprofile(find_hook())
    hidden = getprofile()
    sys.setprofile(print_nothing := (lambda *_: None))
    other = getprofile()
    sys.setprofile(None)
    none = getprofile()
    make_getprofile(None)
    assert hidden is None
    assert other is print_nothing
    assert none is None


@pytest.mark.parametrize("make", dict.fromkeys((interpreter._ThreadCallback, interpreter.ThreadCallback)))
def test_a_callback_is_called_in_its_own_thread_while_it_is_on(make):
    calls = []
    callback = make(lambda *arguments: calls.append(arguments))
    callback(1, 2)
    thread = threading.Thread(target=callback, args=(3,))
    thread.start()
    thread.join()
    assert calls == [(1, 2)]
    callback.is_on = False
    callback(4)
    callback.is_on = True
    callback()
    assert calls == [(1, 2), ()]


@pytest.mark.parametrize("make", dict.fromkeys((interpreter._ThreadCallback, interpreter.ThreadCallback)))
def test_a_callback_for_all_threads_is_called_in_each_while_it_is_on(make):
    calls = []
    callback = make(lambda *arguments: calls.append(arguments), is_for_all=True)
    for is_on in (True, False):
        callback.is_on = is_on
        thread = threading.Thread(target=callback, args=(is_on,))
        thread.start()
        thread.join()
    assert calls == [(True,)]
