from __future__ import annotations

import multiprocessing
import subprocess
import sys
import textwrap
import threading
import time

from sample_profiler.runtime.surroundings import exit_blockers as module
from sample_profiler.runtime.surroundings.exit_blockers import ExitBlockers


def run_program(text: str) -> subprocess.CompletedProcess[str]:
    program = (
        "import atexit, multiprocessing, threading, time\n"
        "from sample_profiler.runtime.surroundings.exit_blockers import ExitBlockers\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_exit_waits_for_no_thread_that_was_begun_meanwhile():
    ended = run_program(
        """
        left = ExitBlockers(100)
        threading.Thread(target=time.sleep, args=(1000,), name="simulator").start()
        left.exit_status = 3
        left.let_go()
        print("over")
        raise SystemExit(3)
        """
    )
    assert (ended.returncode, ended.stdout) == (3, "over\n")
    assert "has left threads that are no daemons, which nobody waits for: simulator (in " in ended.stderr


def test_the_exit_waits_for_a_thread_that_was_there_before():
    ended = run_program(
        """
        def work():
            time.sleep(0.5)
            print("saved")
        threading.Thread(target=work).start()
        ExitBlockers(100).let_go()
        """
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "saved\n", "")


def test_an_exit_that_hangs_is_cut_off_with_its_place():
    ended = run_program(
        """
        def upload():
            time.sleep(1000)
        atexit.register(upload)
        left = ExitBlockers(0.5)
        left.exit_status = 7
        left.let_go()
        """
    )
    assert ended.returncode == 7
    assert "The exit hangs, and is cut off after 0.5 s" in ended.stderr
    assert "in upload" in ended.stderr


def test_processes_that_were_begun_meanwhile_are_ended(caplog, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(module._ExitWatch, "register", lambda *_: None)
    left = ExitBlockers(1)
    context = multiprocessing.get_context("fork")
    hasty = context.Process(target=time.sleep, args=(0,))
    slow = context.Process(target=time.sleep, args=(1000,), name="simulator")
    daemon = context.Process(target=time.sleep, args=(1000,), daemon=True)
    for process in (hasty, slow, daemon):
        process.start()
    left.let_go()
    for process in (slow, daemon):
        process.join(10)
        assert not process.is_alive()
    assert "has left processes, which were ended: " in caplog.text
    assert str(slow.pid) in caplog.text
    assert str(hasty.pid) not in caplog.text


def test_what_ends_by_itself_is_not_told(caplog, monkeypatch):
    monkeypatch.setattr(module._ExitWatch, "register", lambda *_: None)
    left = ExitBlockers(1)
    threading.Thread(target=time.sleep, args=(0.05,)).start()
    left.let_go()
    assert caplog.text == ""


def test_the_exit_is_watched_once_with_what_was_said_last(monkeypatch):
    registered = []
    monkeypatch.setattr(threading, "_register_atexit", registered.append)
    watch = module._ExitWatch()
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    watch.register(1.0, 0)
    watch.register(2.0, 5)
    assert len(registered) == 1
    assert (watch.limit_s, watch.exit_status) == (2.0, 5)


def test_a_simulator_does_not_hold_the_output_open():
    ended = run_program(
        """
        import subprocess
        left = ExitBlockers(100)
        subprocess.Popen(["sleep", "1000"])
        left.let_go()
        print("over")
        """
    )
    assert (ended.returncode, ended.stdout) == (0, "over\n")
    assert "has left processes, which were ended: " in ended.stderr


def test_what_the_program_itself_does_at_its_end_takes_as_long_as_it_likes():
    ended = run_program(
        """
        ExitBlockers(0.2).let_go()

        def work():
            time.sleep(1)
            print("saved")

        threading.Thread(target=work).start()
        """
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "saved\n", "")


def test_an_object_that_hangs_when_it_is_taken_apart_is_cut_off():
    ended = run_program(
        """
        class Lingers:
            def __del__(self, sleep=time.sleep):
                sleep(1000)

        lingers = Lingers()
        ExitBlockers(0.5).let_go()
        """
    )
    assert ended.returncode == 1
    assert "in __del__" in ended.stderr


def test_a_copy_of_the_process_ends_by_itself_while_the_next_run_is_watched():
    """Where a stack is to be dumped later, a lock is held by a thread that a copy does not have."""
    ended = run_program(
        """
        import faulthandler
        ExitBlockers(0.5).let_go()
        faulthandler.dump_traceback_later(1000)
        copy = multiprocessing.get_context("fork").Process(target=int)
        copy.start()
        copy.join(10)
        print(copy.exitcode)
        copy.kill()
        """
    )
    assert ended.stdout == "0\n", ended.stderr
