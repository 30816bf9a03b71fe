"""Kills processes at random moments while they save checkpoints, and looks whether what they left goes on.

Some do nothing but save: what was saved before the kill has to be there, whole, or something newer; what was being
written may not be taken for a checkpoint, and is gone after the next start. The others are a real run on CartPole that
saves twenty times a second. It is killed within two seconds after it has loaded its checkpoint, and has to start again
from the newest one, each time; the last start of a call is followed to its end.

Every kill adds a line to the results as soon as its outcome is known. Kills that are there are not repeated, so the
same command goes on where it was ended, by --seconds or at any moment. Exit status 0: all kills are there, and nothing
was lost; 1: something was; 3: nothing was, but some are not there yet.

    python -m benchmarks.kill_checkpoints --kills 200 --run_kills 200
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring.frameworks.peer_runs import RESULTS
from harness.kept_lines import append_line, describe_origin, end_when_told, read_lines, tell_origins
from sample_profiler.errors import CheckpointError
from sample_profiler.storage.checkpoint_names import newest_steps
from sample_profiler.storage.checkpoints import CheckpointFolder

LONGEST_LIFE_S = 0.25
LONGEST_RUN_S = 2.0  # from the moment at which it has loaded its checkpoint, or saved its first one
RUN = (
    *("-m", "sf_examples.gym.train_gym", "--env=CartPole-v1", "--serial_mode=True", "--seed=1", "--device=cpu"),
    *("--num_workers=1", "--num_envs_per_worker=4", "--rollout=16", "--batch_size=64", "--num_batches_per_epoch=1"),
    *("--num_epochs=1", "--encoder_mlp_layers", "16", "--save_every_sec=0.05", "--save_best_every_sec=0.1"),
    *("--save_best_after=0", "--experiment=run", "--train_for_seconds=300"),  # though nobody is left to kill it
)
NUM_KEPT = 2
_MORE_FRAMES = 2000  # that the last start trains on
_START_S = 60.0
_MOST_OUTPUT = 3000
_LOADED = re.compile(r"Loaded the checkpoint \S*checkpoint_(\d+)_\d+\.pth")


@dataclass(frozen=True)
class Kill:
    """A kill and what came of it.

    Attributes:
        kind: "saving": of a process that does nothing else; "run": of a real run; "end": none, a run came to its end.
        number: which one; of an end, that of the last kill before.
        after_s: from the first moment at which it could have been.
        begun: state or steps that it had begun with.
        saved: that it had saved for certain.
        found: that were loaded afterwards.
        is_unfinished: whether it left an unfinished file.
        problem: what was lost; empty: nothing.
    """

    kind: str
    number: int
    after_s: float
    begun: int
    saved: int
    found: int
    is_unfinished: bool
    problem: str


class LostError(Exception):
    """Something did not go on after a kill."""


def make_state(number: int, num_weights: int) -> dict[str, Any]:
    """Return a state whose every piece says which one it is."""
    return {"model": {f"w{i}": torch.full((num_weights // 4,), float(number)) for i in range(4)}, "frames": number}


def is_whole(state: dict[str, Any], number: int, num_weights: int) -> bool:
    """Tell whether a state is the one of a number, to the last weight."""
    expected = make_state(number, num_weights)
    return state["frames"] == number and all(
        torch.equal(state["model"][name], weights) for name, weights in expected["model"].items()
    )


def save_for_ever(run_folder: Path, first: int, num_weights: int, told: int) -> None:
    """Save one state after the other, telling through a pipe what is saved."""
    folder = CheckpointFolder(run_folder, 0, NUM_KEPT)
    folder.remove_partials()
    number = first
    while True:
        folder.save(make_state(number, num_weights), number, number)
        os.write(told, number.to_bytes(8, "little"))
        if number % 3 == 0:
            folder.save_best(make_state(number, num_weights), number, number, "reward", float(number))
        number += 1


def kill_once(run_folder: Path, first: int, num_weights: int, after_s: float) -> tuple[int, bool]:
    """Let a process save for a moment and kill it.

    Returns:
        The number of the state that was saved last for certain, and whether the kill left an unfinished file.

    Raises:
        LostError: it has failed by itself.
    """
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(told)
            save_for_ever(run_folder, first, num_weights, tell)
        finally:  # only reached by an error
            traceback.print_exc()
            os._exit(1)
    os.close(tell)
    try:
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise LostError("the process that saves has failed by itself")
        with open(told, "rb", closefd=False) as pipe:
            numbers = pipe.read()
    finally:
        os.close(told)
    last = int.from_bytes(numbers[-8:], "little") if numbers else first - 1
    return last, has_unfinished(run_folder)


def has_unfinished(run_folder: Path) -> bool:
    """Tell whether there is a checkpoint that was being written."""
    return any(run_folder.rglob(".partial_*.pth"))


def load_state(run_folder: Path, saved: int, num_weights: int) -> int:
    """Return the number of the newest state.

    Raises:
        LostError: it is older than the one that was saved, or anything is not whole, or left over.
        CheckpointError: none can be read.
    """
    folder = CheckpointFolder(run_folder, 0, NUM_KEPT)
    folder.remove_partials()
    state = folder.load("latest")
    found = -1 if state is None else int(state["frames"])
    if folder.path.exists() and (left := [path.name for path in folder.path.glob(".*")]):
        raise LostError(f"left over: {left}")
    if found < saved or (state is not None and not is_whole(state, found, num_weights)):
        raise LostError(f"{saved} was saved, {found} was loaded, or is damaged")
    best = folder.load("best") if list(folder.path.glob("best_*")) else None
    if best is not None and not is_whole(best, int(best["frames"]), num_weights):
        raise LostError("the best checkpoint is damaged")
    return found


def moment(seed: int, kind: str, number: int, longest_s: float) -> float:
    """Return when a process is killed: at random, and the same for the same kill."""
    return random.Random(f"{seed} {kind} {number}").uniform(0, longest_s)


def kill_savings(numbers: Iterable[int], num_weights: int, seed: int) -> Iterator[Kill]:
    """Kill a process that saves, again and again, each going on with what the one before has left."""
    with tempfile.TemporaryDirectory() as directory:
        run_folder, saved, found, problem = Path(directory), -1, -1, ""
        for number in numbers:
            after_s, begun, is_unfinished = moment(seed, "saving", number, LONGEST_LIFE_S), found, False
            try:
                last, is_unfinished = kill_once(run_folder, begun + 1, num_weights, after_s)
                saved = max(saved, last)
                found = load_state(run_folder, saved, num_weights)
            except (LostError, CheckpointError) as error:
                problem = str(error)
            yield Kill("saving", number, after_s, begun, saved, found, is_unfinished, problem)
            if problem:  # what comes now is not about this kill
                run_folder, saved, found, problem = run_folder / "next", -1, -1, ""


class KilledRun:
    """A run on CartPole in a folder of its own that is killed and started again; a context, which ends it."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._run_folder = Path(self._directory.name) / "run"
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = 0

    def __enter__(self) -> KilledRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._directory.cleanup()

    def start(self) -> None:
        """Start it, and wait until it has loaded its newest checkpoint or, the first time, saved one.

        Raises:
            LostError: it does not come to that, or has loaded another one.
            CheckpointError: there are checkpoints, and none can be read.
        """
        newest = self._load_newest()
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(self._command(), stdout=output, stderr=subprocess.STDOUT)
        deadline_s = time.monotonic() + _START_S
        while (begun := self._find_begun(newest)) is None:
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise LostError(f"no start (status {self._process.poll()}):\n{self._tell()}")
            time.sleep(0.01)
        if newest and begun != newest:
            raise LostError(f"{newest} steps were there, it goes on from {begun}:\n{self._tell()}")
        self._begun = begun

    def kill(self, number: int, after_s: float) -> Kill:
        """Kill it when it has gone on for a while, and start it again."""
        begun, found, problem = self._begun, -1, ""
        time.sleep(after_s)
        saved = newest_steps(self._run_folder, 1)[0]  # is whole for certain
        has_ended = self._process is not None and self._process.poll() is not None
        self._stop()
        is_unfinished = has_unfinished(self._run_folder)
        try:
            if has_ended:
                raise LostError(f"the run has ended by itself:\n{self._tell()}")
            found = self._load_newest()
            if found < saved:
                raise LostError(f"{saved} steps were saved, {found} were loaded")
            self.start()
        except (LostError, CheckpointError) as error:
            problem = str(error)
        return Kill("run", number, after_s, begun, saved, found, is_unfinished, problem)

    def finish(self, number: int) -> Kill:
        """Let one more start come to its end; `number` is that of the last kill."""
        self._stop()
        steps, problem = -1, ""
        try:
            self._train_to_the_end()
            steps = self._load_newest()
        except (LostError, CheckpointError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        return Kill("end", number, 0.0, self._begun, steps, steps, has_unfinished(self._run_folder), problem)

    def _train_to_the_end(self) -> None:
        target = _MORE_FRAMES + self._load_newest("frames")
        command = self._command(f"--train_for_env_steps={target}")
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * _START_S)
        frames, left = self._load_newest("frames"), [str(path) for path in self._run_folder.rglob(".partial_*.pth")]
        if done.returncode or frames < target or left:
            raise LostError(
                f"status {done.returncode}, {frames} of {target} frames, left over: {left}:\n"
                f"{(done.stdout + done.stderr)[-_MOST_OUTPUT:]}"
            )

    @property
    def _log(self) -> Path:
        return self._run_folder.with_name("output.txt")

    @property
    def _folder(self) -> CheckpointFolder:
        return CheckpointFolder(self._run_folder, 0, NUM_KEPT)

    def _command(self, *flags: str) -> list[str]:
        return [sys.executable, *RUN, f"--train_dir={self._run_folder.parent}", *flags]

    def _load_newest(self, count: str = "optimizer_steps") -> int:
        state = self._folder.load("latest")
        return 0 if state is None else int(state[count])

    def _find_begun(self, newest: int) -> int | None:
        """Return the steps that this start goes on from; None: it is not so far yet."""
        if newest:
            match = _LOADED.search(self._log.read_text(errors="replace"))
            return int(match[1]) if match else None
        return 0 if newest_steps(self._run_folder, 1)[0] else None

    def _tell(self) -> str:
        return self._log.read_text(errors="replace")[-_MOST_OUTPUT:]

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def kill_runs(numbers: Iterable[int], seed: int) -> Iterator[Kill]:
    """Kill a real run again and again, each start going on with the one before, and let the last come to its end."""
    rest = iter(numbers)
    for number in rest:
        with KilledRun() as run:
            yield from _kill_one_run(run, itertools.chain([number], rest), seed)


def _kill_one_run(run: KilledRun, numbers: Iterator[int], seed: int) -> Iterator[Kill]:
    """Kill one run until something is lost by it, or there is nothing more to do."""
    last = -1
    try:
        run.start()
    except (LostError, CheckpointError) as error:
        yield Kill("run", next(numbers), 0.0, 0, 0, 0, False, str(error))
        return
    for last in numbers:
        kill = run.kill(last, moment(seed, "run", last, LONGEST_RUN_S))
        yield kill
        if kill.problem:  # what comes now is not about this kill: another run
            return
    yield run.finish(last)


def in_time(numbers: Iterable[int], deadline_s: float) -> Iterator[int]:
    """Yield numbers until the time is up."""
    for number in numbers:
        if time.monotonic() >= deadline_s:
            return
        yield number


def summarize(wanted: dict[str, int], lines: Sequence[dict[str, Any]]) -> tuple[str, int]:
    """Return what all kills come to in words, and the exit status.

    Args:
        wanted: how many kills of each kind.
        lines: that were kept.
    """
    latest = {(line["kind"], line["number"]): line for line in lines}
    of = {kind: [line for (k, n), line in latest.items() if k == kind and n < num] for kind, num in wanted.items()}
    ends = [line for (kind, _), line in latest.items() if kind == "end"]
    kept = [*of["saving"], *of["run"], *ends]
    cut = {kind: sum(line["is_unfinished"] for line in found) for kind, found in of.items()}
    texts = [
        f"{len(of['saving'])} kills of a process that saves, {cut['saving']} of them while a file was being written",
        f"{len(of['run'])} kills of a run on CartPole, {cut['run']} of them while a file was being written, "
        f"{sum(line['found'] > line['begun'] for line in of['run'])} after it had saved anew: "
        f"{sum(not line['problem'] for line in of['run'])} times the next start went on from the newest checkpoint; "
        f"{sum(not line['problem'] for line in ends)} of {len(ends)} times the last one came to its end",
        tell_origins(kept),
    ]
    bad = [f"{line['kind']} {line['number']}: {line['problem']}" for line in kept if line["problem"]]
    if missing := sum(wanted.values()) - len(of["saving"]) - len(of["run"]):
        texts.append(f"{missing} kills are not there yet: the same command goes on with them")
    texts += bad or ["nothing was lost"]
    return "\n".join(texts), 1 if bad else 3 if missing else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Make the kills that are not there yet, and say what all of them come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="of a process that saves; default: 200")
    parser.add_argument("--run_kills", type=int, default=200, help="of a real run; default: 200")
    parser.add_argument("--mb", type=float, default=4.0, help="size of a checkpoint; default: 4")
    parser.add_argument("--seed", type=int, default=0, help="of the moments; default: 0")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no kill after this time")
    parser.add_argument("--output", type=Path, default=RESULTS / "kills.jsonl", help="file of the kills")
    options = parser.parse_args(argv)
    wanted = {"saving": options.kills, "run": options.run_kills}
    kept = {(line["kind"], line["number"]) for line in read_lines(options.output)}
    deadline_s = time.monotonic() + options.seconds
    left = {
        kind: in_time([n for n in range(number) if (kind, n) not in kept], deadline_s)
        for kind, number in wanted.items()
    }
    torch.set_num_threads(1)
    origin = describe_origin()
    for kills in (
        kill_savings(left["saving"], int(options.mb * 2**20 / 4), options.seed),
        kill_runs(left["run"], options.seed),
    ):
        for kill in kills:
            append_line(options.output, asdict(kill) | origin)
    text, status = summarize(wanted, read_lines(options.output))
    print(text)
    return status


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
