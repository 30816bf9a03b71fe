"""Owns a training run from an environment that is being tried to the exit status."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sample_profiler.cli.tracking.beside import TrackerProcesses
from sample_profiler.cli.tracking.choice import chosen_trackers
from sample_profiler.cli.training.conclusion import conclude, exit_status
from sample_profiler.cli.training.folder_checks import check_links
from sample_profiler.cli.training.folder_taking import end_trial, remove_unfinished, replace_config, take_folder
from sample_profiler.cli.training.folder_watch import FolderWatch
from sample_profiler.cli.training.logs import RunLog
from sample_profiler.cli.training.progress import LogProgress, TerminalProgress, make_progress
from sample_profiler.cli.training.summaries import TensorBoardSummaries
from sample_profiler.collector.factory import make_remote_sampler
from sample_profiler.config import Config
from sample_profiler.errors import ConfigError
from sample_profiler.run.checks.machine import allow_processes, choose_device
from sample_profiler.run.checks.spaces import check_spaces
from sample_profiler.run.env_probe import EnvProbe
from sample_profiler.run.extensions.component import RunComponent
from sample_profiler.run.extensions.own_components import check_portable
from sample_profiler.run.layout.factories import check_own_parts
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.run import execute_run
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.machine.machine import Machine
from sample_profiler.runtime.machine.ranks import ALONE, RankPlace
from sample_profiler.storage.checkpoint_names import newest_steps
from sample_profiler.version import __version__

if TYPE_CHECKING:
    from sample_profiler.cli.training.notebook import NotebookProgress

__all__ = ["train_with"]

logger = logging.getLogger(__name__)

_OF_PROCESSES = (
    *("set_workers_cpu_affinity", "force_envs_single_thread", "default_niceness", "heartbeat_interval"),
    *("heartbeat_reporting_interval", "on_worker_failure"),
)
"""Flags about processes of a component's own, as far as there are such."""


def train_with(
    config: Config,
    probe: EnvProbe,
    observers: Sequence[RunObserver],
    log: RunLog,
    stack: contextlib.ExitStack,
    started_ns: int,
    *,
    is_new: bool,
    components: Sequence[RunComponent] = (),
    place: RankPlace = ALONE,
) -> int:
    """Train in the run's folder, and return the exit status.

    Args:
        config: of the run.
        probe: of its environment.
        observers: are told how the run goes.
        log: of it; from now on in its folder, too.
        stack: keeps what is to be let go of in the end.
        started_ns: when the run began, on the clock of blocks.
        is_new: whether there was no folder when the environment began to be tried.
        components: of the user's own.
        place: of this run among those that train the same policies.
    """
    folder = config.run.folder
    share = place.share_of(config)
    device = choose_device(config)
    env_spec = probe.spec()
    has_remote_worker = config.remote.backend == "ray"
    check_spaces(share, env_spec, has_remote_worker=has_remote_worker)
    allow_processes(config, len(components))
    if not config.sampling.serial_mode:
        check_portable(components)
    if not is_new:
        check_own_parts(config, env_spec)
    # Ranks of one machine would want the same port, and each would call for what befalls all of them.
    callers = _make_callers(config, stack) if place.is_first else []
    take_folder(config, stack, is_new=is_new)
    check_links(folder)
    remove_unfinished(folder)
    if config.machine.log_to_file:
        log.add_file(RunFolder(folder).log)
    replace_config(config, folder)
    _log_start(config, folder, place)
    watch = FolderWatch(config, log, stack)
    progress = _make_progress(log, config)
    stack.callback(progress.close)
    summaries = TensorBoardSummaries(
        RunFolder(folder), config.sampling.num_policies, config.machine.flush_summaries_interval
    )
    trackers = TrackerProcesses(chosen_trackers(config.values()) if place.is_first else (), RunFolder(folder))
    stack.callback(trackers.close)
    steps = newest_steps(folder, config.sampling.num_policies)
    try:
        told = [watch, *observers, progress, summaries, trackers, *callers]
        make = make_remote_sampler if has_remote_worker else None
        result = execute_run(share, env_spec, device, folder, told, started_ns, probe, components, place, make)
    except BaseException:  # a second Ctrl+C, too
        end_trial(folder, has_trained=newest_steps(folder, config.sampling.num_policies) != steps)
        raise
    end_trial(folder, has_trained=not (result.keeps_earlier or (result.failure and not result.fps)))
    conclude(config, folder, result)
    trackers.finish(config.tracking.track_timeout)
    return exit_status(result)


def _make_callers(config: Config, stack: contextlib.ExitStack) -> list[RunObserver]:
    """Return who tells others than the terminal of the run.

    Raises:
        ConfigError: nobody can listen at the port, or the command line of alerts is none.
    """
    folder = config.run.folder
    callers: list[RunObserver] = []
    # Their imports take tens of milliseconds, during which nothing else of the run begins.
    if port := config.machine.metrics_port:
        from sample_profiler.cli.training.metrics import MetricsServer

        try:
            server = MetricsServer(folder.name, port)
        except OSError as error:
            cure = "give another one, or leave it out"
            raise ConfigError([f"--metrics_port={port}: {error.strerror or error}: {cure}"]) from None
        stack.callback(server.close)
        callers.append(server)
    # A config.json that came from another machine starts no programs, and calls nobody, on this one.
    command, webhook = (
        "" if config.origin(name) == "saved" else getattr(config.machine, name)
        for name in ("alert_command", "alert_webhook")
    )
    if command or webhook:
        from sample_profiler.cli.training.alerts import Alerts, Caller

        try:
            caller = Caller(command, webhook)
        except ValueError as error:
            raise ConfigError([f"--alert_command={command!r}: {error}"]) from None
        stack.callback(caller.close)
        callers.append(Alerts(folder, caller))
    return callers


def _make_progress(log: RunLog, config: Config) -> TerminalProgress | LogProgress | NotebookProgress:
    """Return what shows how the run goes, by where it is shown."""
    if log.console.is_jupyter:
        from sample_profiler.cli.training.notebook import NotebookProgress

        return NotebookProgress()
    return make_progress(log.console, config.saving.train_for_env_steps, config.saving.train_for_seconds)


def _log_start(config: Config, folder: Path, place: RankPlace) -> None:
    logger.info("sample_profiler %s, run folder %s", __version__, folder)
    if place.size > 1:
        logger.info(
            "Rank %d of %d: trains on its part of each minibatch; frames and throughput are those of all ranks",
            *(place.rank, place.size),
        )
    idle = [name for name in _OF_PROCESSES if name in config.origins and config.origin(name) == "command line"]
    if config.sampling.serial_mode and idle:
        logger.info(
            "Without meaning in serial mode, which has one process: %s", ", ".join(f"--{name}" for name in idle)
        )
    if config.saving.benchmark:
        machine = Machine.this().to_dict()
        logger.info("Machine: %s", ", ".join(f"{name} {value}" for name, value in machine.items()))
        automatic = [f"{name}={value}" for name, value in config.values().items() if config.origin(name) == "automatic"]
        logger.info("Chosen automatically: %s", ", ".join(automatic) or "nothing")
