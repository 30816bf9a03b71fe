from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time

import pytest

from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes import main_thread_watch as module
from sample_profiler.runtime.processes.failure import HangError
from sample_profiler.runtime.processes.main_thread_watch import MainThreadWatch, WatchedReports


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_LOOK_INTERVAL_S", 0.02)


def sleep_for_ever():
    time.sleep(1000)


def test_who_sleeps_for_ever_is_named_and_comes_out(caplog):
    with MainThreadWatch(0.2) as watch:
        watch.enter("reset() of the environment mine")
        with pytest.raises(HangError, match=r"reset\(\) of the environment mine hangs: there was no sign of life"):
            sleep_for_ever()
    assert "reset() of the environment mine hangs" in caplog.text
    assert "in sleep_for_ever" in caplog.text


def test_who_waits_for_a_lock_comes_out():
    lock = threading.Lock()
    lock.acquire()
    with MainThreadWatch(0.2), pytest.raises(HangError):
        lock.acquire()


def test_the_place_is_asked_for_where_nothing_was_entered(caplog):
    with MainThreadWatch(0.2, lambda: "RolloutWorker_w0, in env_step for 3 s,"), pytest.raises(HangError):
        sleep_for_ever()
    assert "RolloutWorker_w0, in env_step for 3 s, hangs" in caplog.text


def test_whoever_gives_signs_of_life_does_not_hang(caplog):
    with MainThreadWatch(0.3) as watch:
        for _ in range(30):
            time.sleep(0.02)
            watch.beat()
    assert caplog.text == ""


def test_more_patience_can_be_asked_for(caplog):
    with MainThreadWatch(0.1) as watch:
        watch.beat(5.0)
        time.sleep(0.4)
        with watch.patient():
            time.sleep(0.4)
        with pytest.raises(HangError):
            sleep_for_ever()


def test_signs_of_life_of_components_reach_it_at_once():
    beats = []

    class Watch:
        def beat(self, patience_s):
            beats.append(patience_s)

    reports = WatchedReports(Watch())
    reports.send(Heartbeat("Learner_0", 5.0))
    reports.send("another report")
    assert beats == [5.0]
    assert reports.receive() == [Heartbeat("Learner_0", 5.0), "another report"]


def test_what_comes_out_once_may_hang_again(caplog):
    with MainThreadWatch(0.2):
        for _ in range(2):
            with pytest.raises(HangError):
                sleep_for_ever()
    assert caplog.text.count("hangs: there was") == 2


def test_another_thread_is_named_and_comes_out_when_it_is_at_work_again(caplog):
    came_out = []

    def wait():
        with MainThreadWatch(0.1, lambda: "the thread"):
            try:
                while True:
                    time.sleep(0.02)
            except HangError:
                came_out.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(20)
    assert came_out == [True]
    assert "the thread hangs" in caplog.text


def test_who_sits_at_the_prompt_of_a_debugger_does_not_hang(caplog):
    prompt = {"__name__": "pdb", "sleep": time.sleep}
    exec("def interaction():\n    sleep(2.5)", prompt)
    with MainThreadWatch(1.0):
        prompt["interaction"]()
    assert caplog.text == ""


def test_who_does_not_come_out_is_ended():
    program = """
        import time
        from sample_profiler.runtime.processes import main_thread_watch as module
        module._LOOK_INTERVAL_S, module._FREE_S = 0.05, 0.3
        with module.MainThreadWatch(0.2) as watch:
            watch.enter("step() of the environment stubborn")
            while True:
                try:
                    time.sleep(1000)
                except BaseException:
                    pass
    """
    ended = run_program(program)
    assert ended.returncode == 1
    assert "step() of the environment stubborn hangs" in ended.stderr
    assert "cannot be interrupted, and is ended" in ended.stderr


def test_native_code_that_holds_the_interpreter_is_told_by_the_system():
    program = """
        import ctypes
        from sample_profiler.runtime.processes import main_thread_watch as module
        module._LOOK_INTERVAL_S, module._NATIVE_S = 0.05, 0.3

        def compute():
            ctypes.PyDLL(None).sleep(3)

        with module.MainThreadWatch(0.2) as watch:
            try:
                compute()
            except module.HangError:
                pass
    """
    assert "in compute" in run_program(program).stderr


def run_program(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=30, check=False
    )
