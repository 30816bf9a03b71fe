"""Training runs with a known delay in one stage, which can be taken away: for `benchmarks.whatif_check`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sample_profiler.analysis.facts import RunFacts, run_facts
from sample_profiler.analysis.whatif import STAGE_BLOCKS
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session import read_live

__all__ = ["CASES", "MIXED", "Case", "DelayedRun", "injected_share", "live_run", "steps_per_second"]

# One group of environments a worker: with two, these step together or in turn, by how long they take. Next to nothing
# is learned, so that episodes, and with them resets, are as long in all runs.
_FLAGS = (
    *("--num_workers=2", "--num_envs_per_worker=16", "--worker_num_splits=1", "--batch_size=1024", "--rollout=32"),
    "--learning_rate=1e-9",
)
_DELAYS = ("env_ms", "inference_ms", "learner_ms")
_BLOCK = "injected"  # in which `benchmarks.measuring.injected_run` spends a delay
_DATASETS_OF_START = 5
_MOST_OF_START_S = 120.0
_WARM_UP_S = 4.0
_LAST_WORDS = 2000


@dataclass(frozen=True)
class Case:
    """A stage and what is added to it.

    Attributes:
        stage: of `STAGE_BLOCKS`.
        injected: in the terms of `benchmarks.measuring.injected_run`.
        flags: beside the usual ones.
    """

    stage: str
    injected: dict[str, float]
    flags: tuple[str, ...] = ()

    def scaled(self, factor: float) -> Case:
        """Return the case with delays so many times as long."""
        delays = {name: factor * self.injected[name] for name in _DELAYS if name in self.injected}
        return replace(self, injected=self.injected | delays)


# On used-up processors inference and environments hold up others by what they compute, so their delays compute, too: a
# sleep would leave its processor to others, and is coarse below a tenth of a millisecond. A Learner that has so many
# epochs sets the pace by itself and uses most of the processors: what it waits holds up all others, and sampling, which
# could use that time, has little to do.
_PACED_BY_LEARNER = ("--num_epochs=32",)
CASES = {
    "env": Case("env", {"env_ms": 0.015, "computes": 1}),
    "inference": Case("inference", {"inference_ms": 0.3, "computes": 1}),
    "learner": Case("learner", {"learner_ms": 2.4}, _PACED_BY_LEARNER),
}
"""Delays without which a run is 20 to 60 % faster on two cores, CartPole on each of them."""

# One environment of each worker waits, in the place of all: a sixteenth of the delay would be too short for a sleep.
MIXED = {
    "env waits": Case("env", {"env_ms": 0.2, "env_every": 16}),
    "inference waits": Case("inference", {"inference_ms": 0.3}),
    "learner computes": Case("learner", {"learner_ms": 2.4, "computes": 1}, _PACED_BY_LEARNER),
    # As environments do that have a process of their own, and training on a GPU.
    "env does both": Case("env", {"env_ms": 0.3, "env_every": 16, "computes": 0.4}),
    "learner does both": Case("learner", {"learner_ms": 2.4, "computes": 0.4}, _PACED_BY_LEARNER),
}
"""Other kinds of delays, some beside a stage of the other kind."""


@dataclass(frozen=True)
class DelayedRun:
    """A run that goes on.

    Attributes:
        folder: of the run.
        switch: file whose byte tells whether it has its delay.
    """

    folder: Path
    switch: Path

    def set_delay(self, is_on: bool) -> None:
        """Give it its delay, or take it away."""
        with self.switch.open("r+b") as file:  # in place: processes have it mapped
            file.write(bytes([is_on]))


@contextlib.contextmanager
def live_run(case: Case) -> Iterator[DelayedRun]:
    """Train with the delay of a case; yields the run once it has warmed up.

    Raises:
        SystemExit: it ended before, or never began to train.
    """
    with tempfile.TemporaryDirectory(prefix="sample_profiler_whatif_") as name:
        log = Path(name, "output")
        run = DelayedRun(Path(name, "run"), Path(name, "switch"))
        run.switch.write_bytes(bytes([True]))
        flags = [*_FLAGS, *case.flags, f"--train_dir={name}", "--experiment=run"]
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.measuring.injected_run", *flags],
                env={**os.environ, "INJECTED": json.dumps(case.injected), "INJECTED_SWITCH": str(run.switch)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            _warm_up(process, run.folder, log)
            yield run
        finally:
            process.terminate()
            process.wait(60)


def _warm_up(process: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
    end_s = time.monotonic() + _MOST_OF_START_S
    while _num_datasets(folder) < _DATASETS_OF_START:
        if process.poll() is not None or time.monotonic() > end_s:
            raise SystemExit(f"the run did not begin to train:\n{log.read_text()[-_LAST_WORDS:]}")
        time.sleep(0.5)
    time.sleep(_WARM_UP_S)


def _num_datasets(folder: Path) -> int:
    try:
        return run_facts(read_live(folder, with_events=False, with_histograms=False)).num_datasets
    except (SessionError, OSError):
        return 0


def injected_share(facts: RunFacts, stage: str) -> float:
    """Return which share of the time of a stage is the delay that was added to it.

    Raises:
        SessionError: there was none.
    """
    spent = injected = 0.0
    for load in facts.components:
        block = STAGE_BLOCKS[stage].get(load.kind)
        if block is not None:
            spent += load.blocks.get(block, 0.0)
            injected += sum(
                share
                for path, share in load.blocks.items()
                if path.startswith(f"{block}/") and path.rpartition("/")[2] == _BLOCK
            )
    if not 0 < injected < spent:
        raise SessionError(f"{injected:.3f} of {spent:.3f} in {stage} were delays: the run has none to take away")
    return injected / spent


def steps_per_second(facts: RunFacts) -> float:
    """Return how many groups of environments were stepped per second."""
    return sum(load.counts.get("env_step", 0) for load in facts.workers) / facts.seconds
