"""Owns what the `train_*` commands do: from a command line to the exit status of a run."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sample_profiler import __version__
from sample_profiler.cli.folder_checks import LOG, check_links, describe_refused
from sample_profiler.cli.logs import log_to_console, log_to_file, make_console
from sample_profiler.cli.progress import make_progress
from sample_profiler.cli.run_folder import end_trial, remove_unfinished, replace_config, take_folder
from sample_profiler.cli.summaries import TensorBoardSummaries
from sample_profiler.components.env_probe import EnvProbe, begin_probe
from sample_profiler.components.making import check_own_parts
from sample_profiler.components.observers import RunObserver
from sample_profiler.components.run import (
    allow_processes,
    check_spaces,
    choose_device,
    execute_run,
)
from sample_profiler.config import (
    Config,
    parse_run_config,
)
from sample_profiler.errors import ConfigError, SampleProfilerError, UnknownEnvError
from sample_profiler.files import expand_home
from sample_profiler.profiling.session import live_folder
from sample_profiler.profiling.timer_stacks import get_thread_stacks
from sample_profiler.runtime.ending_signals import EndedBySignal, signals_raising
from sample_profiler.runtime.left_behind import LeftBehind
from sample_profiler.runtime.machine import Machine, draw_seed
from sample_profiler.runtime.main_module import check_main_module
from sample_profiler.runtime.outputs import outputs_kept
from sample_profiler.storage.checkpoint_names import newest_steps

__all__ = ["train_as_told"]

logger = logging.getLogger(__name__)

_BAD_USAGE = 2
_KILLED_BY_SIGNAL = 128
_OF_PROCESSES = (
    *("set_workers_cpu_affinity", "force_envs_single_thread", "default_niceness", "heartbeat_interval"),
    *("heartbeat_reporting_interval", "hang_timeout", "on_worker_failure"),
)
"""Flags about processes of a component's own, as far as there are such."""


def train_as_told(
    argv: Sequence[str],
    extra_parts: Sequence[type],
    defaults: Mapping[str, Any] | None,
    observers: Sequence[RunObserver],
    started_ns: int,
) -> int:
    """Train, and tell what is in the way if it cannot be done; arguments and exit status are those of `train`.

    Args:
        argv: the command line without the program's name.
        extra_parts: dataclasses with the options of the environment family.
        defaults: values the family has instead of the flags' own defaults, by flag.
        observers: are told how the run goes.
        started_ns: when the run began, on the clock of blocks.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(outputs_kept())
        console = make_console()
        handlers = [log_to_console(console)]
        stack.callback(_remove_handlers, handlers)
        stack.enter_context(signals_raising())
        try:
            return _train(argv, extra_parts, defaults, observers, console, handlers, stack, started_ns)
        except ConfigError as error:
            logger.error("%s", error)
            return _BAD_USAGE
        except SampleProfilerError as error:
            # Its own message says what is wrong; a foreign cause needs its traceback.
            logger.error("%s", error, exc_info=error.__cause__)
            return _BAD_USAGE
        except OSError as error:  # of the run's folder or its processes: later failures are part of the run's report
            text, is_clear = describe_refused(error)
            logger.error("%s", text, exc_info=not is_clear)
            return _BAD_USAGE
        except KeyboardInterrupt as error:  # without a message it came before the run or after it
            logger.error("%s", str(error) or "Interrupted")
            return _KILLED_BY_SIGNAL + (error.number if isinstance(error, EndedBySignal) else signal.SIGINT)


def _train(
    argv: Sequence[str],
    extra_parts: Sequence[type],
    defaults: Mapping[str, Any] | None,
    observers: Sequence[RunObserver],
    console: Console,
    handlers: list[logging.Handler],
    stack: contextlib.ExitStack,
    started_ns: int,
) -> int:
    config = parse_run_config(argv, extra_parts=extra_parts, defaults=defaults)
    config = _with_absolute_profile_dir(_with_seed(config))
    if not config.sampling.serial_mode:
        check_main_module()
    folder = config.run.folder  # what is absolute stays where it is, whatever an environment does
    is_new = not folder.exists()
    left_behind = LeftBehind(config.faults.hang_timeout)
    if config.sampling.serial_mode:
        stack.callback(left_behind.let_go)
    metadata = get_thread_stacks().current().metadata
    # What an earlier run has left is not touched for an environment that cannot be used.
    probe = _begin_probe(config, stack, takes_step=not is_new)
    device = choose_device(config)
    # Not before: the environment is tried meanwhile, in a process of its own.
    from sample_profiler.cli.conclusion import conclude, exit_status

    env_spec = probe.spec()
    check_spaces(config, env_spec)
    allow_processes(config)
    if not is_new:
        check_own_parts(config, env_spec)
    take_folder(config, stack, is_new=is_new)
    check_links(folder)
    remove_unfinished(folder)
    if config.machine.log_to_file:
        handlers.append(log_to_file(folder / LOG))
    replace_config(config, folder)
    _log_start(config, folder)
    progress = make_progress(console, config.saving.train_for_env_steps, config.saving.train_for_seconds)
    stack.callback(progress.close)
    summaries = TensorBoardSummaries(
        folder / "summary", config.sampling.num_policies, config.machine.flush_summaries_interval
    )
    steps = newest_steps(folder, config.sampling.num_policies)
    try:
        told = [*observers, progress, summaries]
        result = execute_run(config, env_spec, device, folder, told, started_ns, metadata, probe)
    except BaseException:  # a second Ctrl+C, too
        end_trial(folder, has_trained=newest_steps(folder, config.sampling.num_policies) != steps)
        raise
    end_trial(folder, has_trained=not (result.keeps_earlier or (result.failure and not result.fps)))
    conclude(config, folder, result)
    left_behind.exit_status = exit_status(result)
    return left_behind.exit_status


def _begin_probe(config: Config, stack: contextlib.ExitStack, *, takes_step: bool) -> EnvProbe:
    """Begin to try the environment; what is left of it ends with the stack."""
    try:
        probe = begin_probe(config, takes_step=takes_step)
    except UnknownEnvError as error:
        if config.origin("env") != "saved":
            raise
        raise UnknownEnvError(
            f"{error}. The run in {config.run.folder} was made with it: give this one an --experiment of its own, or "
            "begin anew with --restart_behavior=overwrite"
        ) from None
    stack.callback(probe.end)
    return probe


def _remove_handlers(handlers: list[logging.Handler]) -> None:
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _with_seed(config: Config) -> Config:
    """Draw a seed if none was given: what happened can be repeated."""
    if config.run.seed is not None:
        return config
    return replace(config, run=replace(config.run, seed=draw_seed()), origins={**config.origins, "seed": "automatic"})


def _with_absolute_profile_dir(config: Config) -> Config:
    """Say where record files are in a way that is understood from any folder, by whoever reads config.json."""
    if not config.profiling.profile_dir:
        return config
    folder = str(expand_home(config.profiling.profile_dir, "--profile_dir", ConfigError).absolute())
    if config.origin("profile_dir") == "saved" and not live_folder(config.run.folder, folder).exists():
        # A config.json that came from another machine does not choose where files are made on this one.
        logger.warning(
            "Records of this run go to its own folder: there are none of it in --profile_dir=%s, as its config.json "
            "says; give the flag again to have them there",
            folder,
        )
        folder = ""
    return replace(config, profiling=replace(config.profiling, profile_dir=folder))


def _log_start(config: Config, folder: Path) -> None:
    logger.info("sample_profiler %s, run folder %s", __version__, folder)
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
