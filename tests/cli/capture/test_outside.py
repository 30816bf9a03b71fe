"""Captures with py-spy, which looks from outside: what it is asked for, and what is said if it may not."""

from __future__ import annotations

import json
import os
import sys

import pytest

from sample_profiler.cli.capture import outside as module
from sample_profiler.cli.main import main
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.run_folder import RunFolder

NAMES = ("Learner_0", "RolloutWorker_w0")

PY_SPY = f"""#!{sys.executable}
import json, os, pathlib, signal, sys, time
words = sys.argv[1:]
part = pathlib.Path(words[words.index("--output") + 1])
def write(*_):
    profile = dict(type="sampled", name="main", unit="seconds", startValue=0, endValue=1, samples=[[0]], weights=[1])
    part.write_text(json.dumps(dict(shared=dict(frames=[dict(name=" ".join(words))]), profiles=[profile])))
    raise SystemExit(0)
signal.signal(signal.SIGINT, write)
if os.environ.get("PY_SPY_SAYS"):
    raise SystemExit(os.environ["PY_SPY_SAYS"])
time.sleep(float(words[words.index("--duration") + 1]) - 0.9)
write()
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that records in this process, and a py-spy that writes down what it was asked for."""
    program = tmp_path / "bin" / "py-spy"
    program.parent.mkdir()
    program.write_text(PY_SPY)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setattr(module, "_POLL_S", 0.01)
    folder = tmp_path / "run"
    RunFolder(folder).live().path.mkdir(parents=True)
    files = []
    for name in NAMES:
        file = RecordFile(RunFolder(folder).live().record(name, 1), process_name=name, ring_bytes=0)
        file.attach(Timing(f"{name} profile"), name)
        file.flush()
        files.append(file)
    yield folder
    for file in files:
        file.close()


def capture(run, *flags):
    return main(["capture", str(run), "--tool=py-spy", "--seconds=1", f"--output={run / 'out.json'}", *flags])


def asked(run):
    """Return what the py-spy that looked at the first process was told."""
    return json.loads((run / "out.json").read_text())["shared"]["frames"][0]["name"]


def test_chosen_processes_are_looked_at_and_merged(run, capsys):
    assert capture(run, "--components=learner") == 0
    words = asked(run)
    assert f"--pid {os.getpid()} " in words
    assert "--format speedscope" in words
    assert "--idle" in words
    assert "Learner_0" in capsys.readouterr().out
    assert not list(RunFolder(run).captures.iterdir())


def test_native_frames_and_the_lock_are_asked_for(run):
    assert capture(run, "--native", "--gil") == 0
    assert asked(run).endswith("--gil --native")
    assert "--idle" not in asked(run)


def test_the_kernel_may_forbid_it_and_the_cure_is_told(run, monkeypatch, capsys):
    monkeypatch.setenv("PY_SPY_SAYS", "Error: Permission Denied: Try running again with elevated permissions")
    assert capture(run) == 2
    said = capsys.readouterr().err
    assert "the kernel does not let this user look into other processes" in said
    assert "SYS_PTRACE" in said


def test_other_failures_are_told_in_its_own_words(run, monkeypatch, capsys):
    monkeypatch.setenv("PY_SPY_SAYS", "Error: Failed to find python version from target process")
    assert capture(run) == 2
    assert "Failed to find python version" in capsys.readouterr().err


def test_it_may_not_be_there(run, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    assert capture(run) == 2
    assert "pip install 'sample_profiler[py-spy]'" in capsys.readouterr().err


def test_its_flags_are_of_no_other_tool(run, capsys):
    assert main(["capture", str(run), "--tool=cprofile", "--native"]) == 2
    assert "--native and --gil are of --tool py-spy" in capsys.readouterr().err
