"""Training runs that a benchmark makes in its own process, where it can watch their counters and talk to their Runner.

Needs the package's examples: run benchmarks with ``python -m benchmarks.…`` in the folder of the repository.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.measuring.machine.processor_time import processor_time_s
from benchmarks.measuring.runs.families import make_family_config
from benchmarks.measuring.turns.alternation import Sample
from sample_profiler.components.messages import Counters
from sample_profiler.config import Config, save_config
from sample_profiler.profiling.session.session import read_session
from sample_profiler.run.checks.machine import choose_device
from sample_profiler.run.checks.spaces import check_spaces
from sample_profiler.run.env_probe import probe_env
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.run import RunResult, execute_run
from sample_profiler.run.runner import Runner
from sample_profiler.run_folder import RunFolder

_FLAGS = {
    # Those of `make run`, but for half its batches: a phase of a few seconds shall have several.
    "doom_benchmark": ("--num_envs_per_worker=8", "--batch_size=512", "--rollout=32"),
    "CartPole-v1": ("--num_workers=2", "--num_envs_per_worker=16", "--batch_size=2048", "--rollout=64"),
}
NAMES = tuple(_FLAGS)

_SAMPLING_INTERVAL_S = 0.01


def make_config(name: str, folder: Path, seconds: float, flags: Sequence[str] = ()) -> Config:
    """Return the configuration of a run.

    Args:
        name: of the environment, one of `NAMES`.
        folder: that the run's folder is made in.
        seconds: how long it trains.
        flags: more flags of the command line.
    """
    argv = [
        f"--train_dir={folder}",
        f"--experiment={name}",
        f"--train_for_seconds={seconds:g}",
        "--train_for_env_steps=1000000000",
        *("--save_every_sec=100000", "--seed=1"),
        *_FLAGS[name],
        *flags,
    ]
    return make_family_config(name, argv)


class _Introduction(RunObserver):
    """Shows a live run its Runner."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live

    def on_init(self, runner: Runner) -> None:
        self._live.runner, self._live.counters = runner, runner.counters


@dataclass
class LiveRun:
    """A run in this process, while it goes on and afterwards.

    Attributes:
        config: of the run.
        runner: of the run; known from its start on.
        counters: of the run; known from its start on.
        samples: of its counters, every 10 ms, from its start on.
        result: how it went; known after its end.
        foreign_pids: children of this process that do not belong to the run.
    """

    config: Config
    runner: Runner | None = None
    counters: Counters | None = None
    samples: list[Sample] = field(default_factory=list)
    result: RunResult | None = None
    foreign_pids: set[int] = field(default_factory=set)

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.config.run.folder

    def execute(self, observers: Sequence[RunObserver]) -> RunResult:
        """Train until the run ends.

        Raises:
            RuntimeError: the run failed or was interrupted.
        """
        env_spec, device = probe_env(self.config), choose_device(self.config)
        check_spaces(self.config, env_spec)
        self.folder.mkdir(parents=True)
        save_config(self.config, RunFolder(self.folder).config)
        is_over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(is_over,), name="counters")
        watch.start()
        try:
            self.result = execute_run(self.config, env_spec, device, self.folder, [*observers, _Introduction(self)])
        finally:
            is_over.set()
            watch.join()
        if self.result.failure or self.result.interrupted_by is not None:
            raise RuntimeError(f"the run did not end as it should: {self.result.reason}")
        return self.result

    def cpu_s(self) -> float:
        """Return the processor time that all processes of the run have had so far, games included.

        This one counts where it does the run's work, in serial mode.
        """
        own, total = psutil.Process(), 0.0
        processes = [each for each in own.children(recursive=True) if each.pid not in self.foreign_pids]
        for process in [own, *processes] if self.config.sampling.serial_mode else processes:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    def _watch(self, is_over: threading.Event) -> None:
        learners: list[int] = []
        learner_cpu_s, last_frames = 0.0, 0
        while not is_over.wait(_SAMPLING_INTERVAL_S):
            if self.counters is None:
                continue
            now_s = time.monotonic()
            steps, frames = int(self.counters.agent_steps.sum()), int(self.counters.trained_frames.sum())
            if frames > last_frames and not self.config.sampling.serial_mode:
                learners = learners or self._find_learners()
                with contextlib.suppress(OSError):  # the run has ended meanwhile
                    learner_cpu_s = sum(map(processor_time_s, learners))
            last_frames = frames
            self.samples.append(Sample(now_s, steps, frames, learner_cpu_s))

    def _find_learners(self) -> list[int]:
        session = read_session(self.folder, with_events=False, with_histograms=False)
        return [record.pid for record in session.processes if record.name.startswith("Learner")]


def make_run(name: str, seconds: float, flags: Sequence[str] = ()) -> LiveRun:
    """Lay out a run in a folder that goes with this process; its warnings and errors go to standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    folder = Path(tempfile.mkdtemp(prefix="sample_profiler_benchmark_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return LiveRun(make_config(name, folder, seconds, flags))
