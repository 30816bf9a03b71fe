"""`sample-profiler serve` as a program: what it prints, how it ends, and what many tabs and runs cost it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from sample_profiler.cli.main import main
from sample_profiler.cli.serving import actions
from sample_profiler.errors import CaptureError
from sample_profiler.run_folder import RunFolder
from tests.cli.serving.conftest import TOKEN
from tests.cli.serving.made_runs import live_run, make_ended_run
from tests.docs.pages import ROOT

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)$", re.MULTILINE)


@contextlib.contextmanager
def program(*words, **environment):
    """Yield the process of the command, and the line with its address."""
    command = [sys.executable, "-m", "sample_profiler", "serve", *words]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def status_of(port, token, path="/"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_printed_address_opens_and_ctrl_c_ends_it(tmp_path):
    make_ended_run(tmp_path / "first")
    with program(str(tmp_path)) as (process, line):
        port, token = ADDRESS.search(line).groups()
        assert len(token) >= 32 and status_of(int(port), token) == 200 and status_of(int(port), "x" * 32) == 401
        tab = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
        tab.request("GET", "/events", headers={"Authorization": f"Bearer {token}"})
        assert tab.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
        tab.close()
        assert process.returncode in (0, 130) and "Traceback" not in told


def test_ctrl_c_ends_a_capture_that_a_page_has_asked_for_and_keeps_what_there_is(tmp_path):
    live = live_run(tmp_path / "live", ring_bytes=1 << 16)
    with live as (timing, file), program(str(tmp_path), "--token", TOKEN) as (process, line):
        with timing.add_time("work"):
            file.flush()
        connection = http.client.HTTPConnection("127.0.0.1", int(ADDRESS.search(line)[1]), timeout=60)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            connection.request("POST", "/act?name=live", '{"do": "capture", "seconds": 120}', headers)
            while not is_followed(process):
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            answer = connection.getresponse()
            assert answer.status == 200 and b"Captured: timeline_" in answer.read()
        _, told = process.communicate(timeout=20)
        assert process.returncode in (0, 130) and "Traceback" not in told
    (document,) = RunFolder(tmp_path / "live").captures.glob("timeline_*.json")
    assert json.loads(document.read_text())["traceEvents"]


def is_followed(process):
    """Whether the process has a temporary file: it keeps the events of a run in it."""
    with contextlib.suppress(FileNotFoundError):  # closed meanwhile
        names = [str(path.readlink()) for path in Path(f"/proc/{process.pid}/fd").iterdir()]
        return any(name.startswith(f"{tempfile.gettempdir()}/#") for name in names)
    return False


def test_ctrl_c_waits_little_for_what_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(actions, "PATIENCE_S", 0.1)
    began, may_end, is_over = threading.Event(), threading.Event(), threading.Event()
    interrupted = []

    def never_ends(run_dir, request, interruption):
        interrupted.append(interruption)
        began.set()
        may_end.wait(60)

    monkeypatch.setattr(actions, "act", never_ends)
    threading.Thread(target=lambda: (began.wait(), is_over.set())).start()
    with pytest.raises(CaptureError, match="the server has ended"):
        asyncio.run(actions.act_beside(tmp_path, {"do": "capture"}, is_over.is_set))
    assert interrupted[0].is_wanted
    may_end.set()


def test_a_token_of_ones_own_is_not_printed_by_who_sees_command_lines(tmp_path):
    with program(str(tmp_path), SAMPLE_PROFILER_TOKEN=TOKEN) as (process, line):
        assert ADDRESS.search(line)[2] == TOKEN
        assert TOKEN not in " ".join(psutil.Process(process.pid).cmdline())
        assert psutil.Process(process.pid).nice() == 19, "the runs come first"


def test_another_host_than_this_machine_is_warned_of(tmp_path):
    with program(str(tmp_path), "--host", "0.0.0.0") as (process, line):
        assert line
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
        assert told.startswith("Warning: --host=0.0.0.0 lets other machines in")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["{tmp}/nothing"], "is no folder; give the folder of runs"),
        (["{tmp}", "--host", "no.such.host.invalid"], "nobody can listen at --host=no.such.host.invalid"),
        (["{tmp}", "--port", "99999"], "give a number from 0 to 65535"),
        (["{tmp}", "--token", "short"], "give 16 or more letters, digits, - and _"),
        (["{tmp}", "--token", "with spaces and ; in it"], "give 16 or more letters"),
    ],
)
def test_what_cannot_be_served_is_told(tmp_path, words, problem, capsys):
    try:
        status = main(["serve", *(word.replace("{tmp}", str(tmp_path)) for word in words)])
    except SystemExit as error:
        status = error.code
    told = capsys.readouterr().err
    assert status == 2 and problem in told
    assert words[-1] not in told or "--token" not in words, "it may be most of a secret"


def test_a_token_of_the_environment_that_is_too_short_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SAMPLE_PROFILER_TOKEN", "short")
    assert main(["serve", str(tmp_path)]) == 2
    assert "SAMPLE_PROFILER_TOKEN: give 16 or more" in capsys.readouterr().err


def test_what_is_not_installed_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(tmp_path)]) == 2
    assert "uvicorn is not installed: pip install 'sample_profiler[web]'" in capsys.readouterr().err


@pytest.mark.whole_run
@pytest.mark.timeout(300)
def test_fifty_tabs_and_two_hundred_runs_take_little_memory(tmp_path):
    history = {f"figure_{number}": [[time_s, time_s * number] for time_s in range(200)] for number in range(8)}
    history["episode_return_policy_0"] = history["fps"] = history["figure_7"]
    first = make_ended_run(tmp_path / "run_0", history=history, frames={"0": 77_000}, fps=10.0)
    for number in range(1, 200):
        shutil.copytree(first, tmp_path / f"run_{number}")
    with live_run(tmp_path / "live") as (_, file), program(str(tmp_path), "--token", TOKEN) as (process, line):
        file.flush()
        port = int(ADDRESS.search(line)[1])
        seen = [b""] * 50

        def look(number):
            path = "/events" if number % 2 else "/events?name=live"
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=100)) as connection:
                connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
                with connection.getresponse() as response, contextlib.suppress(OSError, http.client.HTTPException):
                    while text := response.readline():
                        seen[number] = max(seen[number], text, key=len)

        threads = [threading.Thread(target=look, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        deadline_s = time.monotonic() + 250
        while not all(seen) or any(text.count(b"77,000") < 200 for text in seen[1::2]):
            assert time.monotonic() < deadline_s, [len(text) for text in seen]
            time.sleep(0.1)
        memory_mib = psutil.Process(process.pid).memory_info().rss / 2**20
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        for thread in threads:
            thread.join()
    assert memory_mib < 300
