"""Training runs with a known delay in one stage, which can be taken away: for `benchmarks.checks.whatif_check`."""

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

from sample_profiler.analysis.facts import ComponentLoad, RunFacts, run_facts
from sample_profiler.analysis.whatif import STAGE_BLOCKS
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session.session import read_live

__all__ = ["CASES", "MIXED", "Case", "DelayedRun", "injected_share", "live_run", "steps_per_second"]

# Stages of several tenths of a millisecond, training of more. Next to nothing is learned, so that episodes, and with
# them resets, are as long in all runs.
_ENVS_PER_GROUP = 8
_FLAGS = (
    *("--env=slowed_halfcheetah", "--num_workers=2", f"--num_envs_per_worker={2 * _ENVS_PER_GROUP}"),
    *("--batch_size=1024", "--rollout=32", "--learning_rate=1e-9"),
)
_DELAYS = ("env_ms", "inference_ms", "inference_row_ms", "learner_ms")
_BLOCK = "injected"  # in which `benchmarks.measuring.runs.injected_run` spends a delay
_LATE_MS = 0.05  # by which a sleep is longer than asked for
_DATASETS_OF_START = 5
_MOST_OF_START_S = 120.0
_WARM_UP_S = 4.0
_LAST_WORDS = 2000


@dataclass(frozen=True)
class Case:
    """A stage and what is added to it.

    Attributes:
        stage: of `STAGE_BLOCKS`.
        injected: in the terms of `benchmarks.measuring.runs.injected_run`.
        flags: beside the usual ones.
    """

    stage: str
    injected: dict[str, float]
    flags: tuple[str, ...] = ()

    def scaled(self, factor: float) -> Case:
        """Return the case with delays so many times as long."""
        delays = {name: factor * self.injected[name] for name in _DELAYS if name in self.injected}
        return replace(self, injected=self.injected | delays)


# All three stages compute, so their delays do: as of an environment that has more to simulate, and of a larger network.
# A Learner that has so many epochs sets the pace by itself.
_PACED_BY_LEARNER = ("--num_epochs=8",)
_ONE_GROUP = "--worker_num_splits=1"
CASES = {
    "env": Case("env", {"env_ms": 0.022, "computes": 1}),
    "inference": Case("inference", {"inference_row_ms": 0.0145, "computes": 1}),
    "learner": Case("learner", {"learner_ms": 3.0, "computes": 1}, _PACED_BY_LEARNER),
}
"""Delays without which a run is 20 to 40 % faster on two cores, HalfCheetah on each of them."""

# One environment of each group waits, in the place of all: an eighth of the delay would be too short for a sleep.
_ONE_OF_GROUP = {"env_every": _ENVS_PER_GROUP}
MIXED = {
    "env waits": Case("env", {"env_ms": 0.4, **_ONE_OF_GROUP}),
    "inference waits": Case("inference", {"inference_ms": 0.4}),
    "learner waits": Case("learner", {"learner_ms": 5.0}, _PACED_BY_LEARNER),
    # As environments do that have a process of their own, and training on a GPU.
    "env does both": Case("env", {"env_ms": 0.4, "computes": 0.4, **_ONE_OF_GROUP}),
    "learner does both": Case("learner", {"learner_ms": 5.0, "computes": 0.4}, _PACED_BY_LEARNER),
    # Both workers have one group, and stages of a fraction of a millisecond: how often their requests meet in one call
    # of the network hangs on who is how quick.
    "quick env": Case(
        "env", {"env_ms": 0.015, "computes": 1}, ("--env=slowed_cartpole", "--num_envs_per_worker=8", _ONE_GROUP)
    ),
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
                [sys.executable, "-m", "benchmarks.measuring.runs.injected_run", *flags],
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


def injected_share(facts: RunFacts, case: Case) -> float:
    """Return which share of what a stage does by itself is the delay that was added to it.

    The stages of these runs compute, but for the part of a delay that waits. Time in which somebody was ready and had
    no processor is no part of it, as in what a stage is slowed by.

    Raises:
        SessionError: there was none.
    """
    own = injected = 0.0
    waits = 1 - case.injected.get("computes", 0.0)
    for load in facts.components:
        block = STAGE_BLOCKS[case.stage].get(load.kind)
        if block in load.blocks and load.busy:
            delay = _delay(facts, load, case)
            injected += delay
            own += (load.cpu or 0.0) * load.blocks[block] / load.busy + waits * delay
    if not 0 < injected < own:
        raise SessionError(f"{injected:.3f} of {own:.3f} in {case.stage} were delays: the run has none to take away")
    return injected / own


def _delay(facts: RunFacts, load: ComponentLoad, case: Case) -> float:
    """Return for which share of the time a component was delayed, by how often it was."""
    num_delays: float = sum(count for path, count in load.counts.items() if path.rpartition("/")[2] == _BLOCK)
    if num_delays and "inference_row_ms" in case.injected:
        num_delays = steps_per_second(facts) * facts.seconds * _ENVS_PER_GROUP
    (milliseconds,) = (case.injected[name] for name in _DELAYS if name in case.injected)
    longer_ms = _LATE_MS if case.injected.get("computes", 0.0) < 1 else 0.0
    return num_delays * (milliseconds + longer_ms) / 1000 / facts.seconds


def steps_per_second(facts: RunFacts) -> float:
    """Return how many groups of environments were stepped per second."""
    return sum(load.counts.get("env_step", 0) for load in facts.workers) / facts.seconds
