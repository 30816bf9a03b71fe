"""Owns the processes of the launcher: some experiments at a time, each with this package in Sample Factory's place."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from sample_profiler.compat.helpers.utilities import log
from sample_profiler.compat.running.launcher import RunDescription
from sample_profiler.compat.running.statuses import ExperimentStatus
from sample_profiler.errors import UsageError

__all__ = ["launcher_argparser", "main", "parse_args", "run"]

_POLL_S = 0.2


def launcher_argparser(args: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser of the launcher's command line.

    Raises:
        UsageError: Experiments are to run elsewhere than on this machine.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_dir", default="./train_dir", help="folder of all experiments")
    parser.add_argument("--run", help="module whose RUN_DESCRIPTION says what to run")
    parser.add_argument("--backend", default="processes", help="processes: of this machine; nothing else is served")
    parser.add_argument("--pause_between", default=1, type=int, help="seconds between the starts of two processes")
    parser.add_argument("--experiment_suffix", default="", help="is added to the names of folders")
    parser.add_argument("--num_gpus", default=1, type=int, help="GPUs of this machine to use")
    parser.add_argument("--max_parallel", default=4, type=int, help="processes at a time")
    parser.add_argument("--experiments_per_gpu", default=-1, type=int, help="of these on each GPU; -1: any")
    backend = parser.parse_known_args(list(args))[0].backend
    if backend != "processes":
        raise UsageError(f"--backend={backend} is not served: experiments run as processes of this machine")
    return parser


def parse_args() -> argparse.Namespace:
    """Parse the command line of this process."""
    return launcher_argparser(sys.argv[1:]).parse_args()


def run(run_description: RunDescription, args: Any) -> int:
    """Run experiments, `max_parallel` at a time.

    Args:
        run_description: What to run.
        args: From :func:`launcher_argparser`.

    Returns:
        As of `ExperimentStatus`: a failure if one of them has failed.
    """
    waiting = list(run_description.generate_experiments(args.train_dir))
    running: list[tuple[str, subprocess.Popen[bytes], int | None]] = []  # two may have the same name
    failed = []
    while waiting or running:
        gpu = _free_gpu(args, [each for _, _, each in running])
        if waiting and len(running) < args.max_parallel and gpu is not None:
            cmd, name, _, env_vars = waiting.pop(0)
            log.info("Starting %s: %s", name, cmd)
            variables = {**os.environ, **{str(key): str(value) for key, value in (env_vars or {}).items()}}
            if gpu >= 0:
                variables["CUDA_VISIBLE_DEVICES"] = str(gpu)
            running.append((name, subprocess.Popen(_with_this_package(cmd), env=variables), gpu))
            time.sleep(args.pause_between)
            continue
        for each in list(running):
            name, process, _ = each
            if process.poll() is not None:
                running.remove(each)
                failed += [name] if process.returncode else []
                log.info("%s has ended with status %d", name, process.returncode)
        time.sleep(_POLL_S)
    if failed:
        log.error("These experiments failed: %s", ", ".join(failed))
    return ExperimentStatus.FAILURE if failed else ExperimentStatus.SUCCESS


def main() -> int:
    """Run what the command line of this process names."""
    args = parse_args()
    description = importlib.import_module(args.run).RUN_DESCRIPTION
    description.experiment_suffix = args.experiment_suffix
    return run(description, args)


def _free_gpu(args: Any, used: Sequence[int | None]) -> int | None:
    """Return the GPU with the fewest experiments on it; None: all are full; -1: they are not dealt out."""
    if args.experiments_per_gpu <= 0:
        return -1
    gpu = min(range(args.num_gpus), key=used.count)
    return gpu if used.count(gpu) < args.experiments_per_gpu else None


def _with_this_package(cmd: str) -> list[str]:
    """Return the words of a command; programs of Python run as `python -m sample_profiler.compat` runs them."""
    program, *words = shlex.split(cmd)
    if not os.path.basename(program).startswith("python"):
        return [program, *words]
    return [sys.executable, "-m", "sample_profiler.compat", *words]
