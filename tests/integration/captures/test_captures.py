"""Every tool captures processes of a run that goes on: the documents open, all chosen components are in them."""

from __future__ import annotations

import json
import pstats
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.runs import CARTPOLE, SMALL, LiveRun, live_run
from sample_profiler.profiling.session.session import read_session

EVERYBODY = {"Runner", "Learner_0", "Batcher_0", "InferenceWorker_p0-w0", "RolloutWorker_w0", "RolloutWorker_w1"}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    """One run for all tests here: that it goes on is what each of them shows."""
    folder = tmp_path_factory.mktemp("captures")
    flags = ("--train_for_env_steps=1000000000", "--save_every_sec=1")
    with live_run(*CARTPOLE, *SMALL, *flags, folder=folder) as live:
        live.wait_until_training()
        yield live


def capture(live: LiveRun, *arguments: str) -> tuple[Path, str]:
    """Capture with the command that people use; return the document and what was printed."""
    command = [sys.executable, "-m", "sample_profiler", "capture", str(live.folder), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert result.returncode == 0, result.stderr + live.output
    return Path(result.stdout.splitlines()[0].rpartition(" (")[0]), result.stdout


def num_trained(live: LiveRun) -> int:
    """Return how often the Learner has trained so far, as somebody outside can see."""
    session = read_session(live.folder, with_events=False)
    [learner] = [record.trees["Learner_0"] for record in session.processes if record.name == "Learner_0"]
    return learner.children["train"].statistics.count


def assert_it_goes_on(live: LiveRun) -> None:
    before = num_trained(live)
    deadline_s = time.monotonic() + 30
    while num_trained(live) <= before:
        assert time.monotonic() < deadline_s, live.output
        assert live.process.poll() is None, live.output
        time.sleep(0.1)
    assert "Traceback" not in live.output


def components_in_pstats(path: Path) -> set[str]:
    files = {file for file, _, _ in pstats.Stats(str(path)).stats}
    return {name for name in EVERYBODY if any(file.startswith(f"{name}:") for file in files)}


def components_in_trace(path: Path) -> set[str]:
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    return {name for name in EVERYBODY if any(name in process for process in names)}


@pytest.mark.parametrize("tool", ["cprofile", "yappi"])
def test_functions_of_all_processes_are_in_one_pstats_document(live: LiveRun, tool: str) -> None:
    if tool != "cprofile":
        pytest.importorskip(tool)
    path, printed = capture(live, "--tool", tool, "--seconds", "1")
    assert components_in_pstats(path) == EVERYBODY
    assert all(name in printed for name in EVERYBODY)
    assert "not captured" not in printed
    assert_it_goes_on(live)


def test_chosen_processes_alone_are_captured(live: LiveRun) -> None:
    chosen = ("--components", "rollout,learner", "--workers", "1")
    path, _ = capture(live, "--tool", "cprofile", "--seconds", "1", *chosen)
    assert components_in_pstats(path) == {"Learner_0", "RolloutWorker_w1"}
    assert_it_goes_on(live)


def test_stacks_of_all_processes_are_in_one_speedscope_document(live: LiveRun) -> None:
    pytest.importorskip("pyinstrument")
    path, _ = capture(live, "--tool", "pyinstrument", "--seconds", "1")
    document = json.loads(path.read_text())
    names = {profile["name"] for profile in document["profiles"]}
    assert {name for name in EVERYBODY if any(name in profile for profile in names)} == EVERYBODY
    assert max(frame for profile in document["profiles"] for frame in _frames(profile)) < len(
        document["shared"]["frames"]
    )
    assert_it_goes_on(live)


def _frames(profile: dict) -> list[int]:
    if profile["type"] == "evented":
        return [event["frame"] for event in profile["events"]]
    return [frame for sample in profile["samples"] for frame in sample]


def test_operators_of_the_processes_with_a_network_are_in_one_trace(live: LiveRun) -> None:
    path, printed = capture(live, "--tool", "torch", "--seconds", "1", "--components", "learner,inference,rollout")
    assert components_in_trace(path) >= {"Learner_0", "InferenceWorker_p0-w0"}
    for name in ("Learner_0", "InferenceWorker_p0-w0"):  # workers are rid of PyTorch, unless they are asked for it
        [line] = [line for line in printed.splitlines() if line.strip().startswith(name)]
        assert line.endswith(" s")
    events = json.loads(path.read_text())["traceEvents"]
    by_process: dict[object, set[str]] = {}
    for event in events:
        by_process.setdefault(event.get("pid"), set()).add(event["name"])
    # Training multiplies, inference draws actions.
    [drawing] = [pid for pid, names in by_process.items() if "aten::exponential_" in names]
    assert any("aten::addmm" in names for pid, names in by_process.items() if pid != drawing)
    assert_it_goes_on(live)


def test_blocks_of_all_processes_are_in_one_timeline(live: LiveRun) -> None:
    path, _ = capture(live, "--tool", "timeline", "--seconds", "1")
    assert components_in_trace(path) == EVERYBODY
    names = {event["name"] for event in json.loads(path.read_text())["traceEvents"]}
    assert names >= {"train", "forward", "env_step"}
    assert_it_goes_on(live)


def test_a_worker_that_is_not_there_is_told_and_nothing_happens(live: LiveRun) -> None:
    command = [sys.executable, "-m", "sample_profiler", "capture", str(live.folder), "--tool", "cprofile"]
    result = subprocess.run([*command, "--workers", "7"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert "there is no rollout worker 7; allowed are 0, 1" in result.stderr
    assert_it_goes_on(live)


def test_status_tells_of_all_components(live: LiveRun) -> None:
    command = [sys.executable, "-m", "sample_profiler", "status", str(live.folder)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert printed.startswith("The run is running")
    assert all(name in printed for name in EVERYBODY)
