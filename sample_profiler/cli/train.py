"""Owns the `train_*` commands: from a command line to the exit status of a run."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sample_profiler import __version__
from sample_profiler.cli.logs import log_to_console, log_to_file, make_console
from sample_profiler.cli.progress import make_progress
from sample_profiler.cli.report import write_page
from sample_profiler.cli.run_folder import LOG, check_links, find_link_to
from sample_profiler.cli.summaries import TensorBoardSummaries, write_verdict
from sample_profiler.components.env_probe import EnvProbe, begin_probe
from sample_profiler.components.making import check_own_parts
from sample_profiler.components.observers import RunObserver, check_observers
from sample_profiler.components.run import (
    RunResult,
    allow_processes,
    check_spaces,
    choose_device,
    execute_run,
)
from sample_profiler.config import (
    Config,
    config_path,
    earlier_config_path,
    format_help,
    parse_run_config,
    save_config,
    wants_help,
)
from sample_profiler.errors import ConfigError, SampleProfilerError, UnknownEnvError
from sample_profiler.files import expand_home, make_folder, remove_partials, sync, written_whole
from sample_profiler.profiling.process_clock import process_start_ns
from sample_profiler.profiling.session import live_folder
from sample_profiler.profiling.timer_stacks import get_thread_stacks
from sample_profiler.reports.accounts import format_accounts
from sample_profiler.reports.run_report import RunReport, make_report
from sample_profiler.reports.trees import format_trees
from sample_profiler.reports.verdict import format_verdict
from sample_profiler.runtime.ending_signals import EndedBySignal, signals_raising
from sample_profiler.runtime.folder_lock import folder_locked, stay_until_unlocked
from sample_profiler.runtime.left_behind import LeftBehind
from sample_profiler.runtime.machine import Machine, draw_seed
from sample_profiler.storage.checkpoint_names import newest_steps

__all__ = ["train"]

logger = logging.getLogger(__name__)

_BAD_USAGE = 2
_LEARNER_S = 150.0  # it may have two minutes for its step after its Runner is gone, and has to save
_KILLED_BY_SIGNAL = 128
_OF_PROCESSES = (
    *("set_workers_cpu_affinity", "force_envs_single_thread", "default_niceness", "heartbeat_interval"),
    *("heartbeat_reporting_interval", "hang_timeout", "on_worker_failure"),
)
"""Flags about processes of a component's own, as far as there are such."""
_CURES = {
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n)"),
    errno.EAGAIN: "raise the limit of processes (ulimit -u, pids.max of a container), or use a smaller --num_workers",
    errno.ENOMEM: "free memory, or use a smaller --num_workers",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space, or use another --train_dir"),
}
"""Of what the system refuses, by its number."""


def train(
    argv: Sequence[str] | None = None,
    *,
    extra_parts: Sequence[type] = (),
    defaults: Mapping[str, Any] | None = None,
    observers: Sequence[RunObserver] = (),
) -> int:
    """Train as a command line says.

    Args:
        argv: the command line without the program's name; None: of this process.
        extra_parts: dataclasses with the options of the environment family.
        defaults: values the family has instead of the flags' own defaults, by flag.
        observers: are told how the run goes, in this process.

    Returns:
        Exit status: 0: the run ended as it should; 1: it failed; 2: the flags or the environment cannot be used;
        129, 130 or 143: a closed terminal (SIGHUP), Ctrl+C or SIGTERM ended it, in order.

    Raises:
        TypeError: an observer is no instance of a RunObserver, or a part of the options is not usable.
    """
    observers = check_observers(observers)
    started_ns = process_start_ns() if argv is None else time.perf_counter_ns()
    argv = sys.argv[1:] if argv is None else argv
    if wants_help(argv):
        print(format_help(extra_parts=extra_parts, defaults=defaults))
        return 0
    console = make_console()
    handlers = [log_to_console(console)]
    with contextlib.ExitStack() as stack:
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
            cure = _CURES.get(error.errno or 0, "use another --train_dir" if error.filename else "")
            logger.error("%s%s", error, f": {cure}" if cure else "", exc_info=not cure)
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
    folder = config.run.folder  # what is absolute stays where it is, whatever an environment does
    is_new = not folder.exists()
    left_behind = LeftBehind(config.faults.hang_timeout)
    if config.sampling.serial_mode:
        stack.callback(left_behind.let_go)
    metadata = get_thread_stacks().current().metadata
    # What an earlier run has left is not touched for an environment that cannot be used.
    probe = _begin_probe(config, stack, takes_step=not is_new)
    device = choose_device(config)
    env_spec = probe.spec()
    check_spaces(config, env_spec)
    allow_processes(config)
    if not is_new:
        check_own_parts(config, env_spec)
    _take_folder(config, stack, is_new=is_new)
    check_links(folder)
    _remove_unfinished(folder)
    if config.machine.log_to_file:
        handlers.append(log_to_file(folder / LOG))
    _replace_config(config, folder)
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
        _end_trial(folder, has_trained=newest_steps(folder, config.sampling.num_policies) != steps)
        raise
    _end_trial(folder, has_trained=not (result.keeps_earlier or (result.failure and not result.fps)))
    _conclude(config, folder, result)
    left_behind.exit_status = _exit_status(result)
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


def _remove_unfinished(folder: Path) -> None:
    """Remove the files that a run that was killed had begun to write."""
    for path in (folder, folder / "profile", folder / "summary"):
        for removed in remove_partials(path):
            logger.debug("Removed the unfinished %s of a run that was killed", removed)


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


def _take_folder(config: Config, stack: contextlib.ExitStack, *, is_new: bool) -> None:
    """Make and lock the run's folder; of an existing one, lock it and do with its run what `--restart_behavior` says.

    Args:
        config: of the run.
        stack: keeps the lock.
        is_new: whether there was no folder when the environment was tried: what is there now is another start's.

    Raises:
        ConfigError: another run is in it, or it cannot be made.
    """
    folder = config.run.folder
    try:
        if not is_new:
            stack.enter_context(folder_locked(folder))
            for checkpoints in filter(Path.is_dir, sorted(folder.glob("checkpoint_p*"))):
                stay_until_unlocked(checkpoints, _LEARNER_S)
            if config.run.restart_behavior != "resume":
                _check_holds_no_other_run(config)
            if config.run.restart_behavior == "overwrite":
                _check_is_of_a_run(folder, expand_home(config.run.train_dir, "--train_dir", ConfigError))
                _empty(folder)
            elif config.run.restart_behavior == "restart":
                _rename(folder)
        if is_new or config.run.restart_behavior == "restart":
            make_folder(folder.parent)
            folder.mkdir()
            sync(folder.parent)
            stack.enter_context(folder_locked(folder))
    except FileExistsError as error:
        if os.path.lexists(folder):
            problem = f"{folder} was made by another run, or as a link, since this one looked: start again"
            raise ConfigError([f"{problem}, or use another --experiment"]) from error
        problem = f"cannot make the run's folder {folder}: a link on the way to it leads nowhere"
        raise ConfigError([f"{problem}: use another --train_dir"]) from error
    except OSError as error:
        problem = f"cannot make the run's folder {folder}: {error.strerror or error}: use another --train_dir"
        raise ConfigError([problem]) from error


def _check_holds_no_other_run(config: Config) -> None:
    """Refuse to delete or rename a folder that other runs are in, which may go on: names may have a slash.

    Raises:
        ConfigError: there is one.
    """
    folder = config.run.folder
    for path in folder.glob(f"*/**/{config_path(folder).name}"):
        if (path.parent / LOG).exists():
            behavior = f"--restart_behavior={config.run.restart_behavior}"
            problem = (
                f"{behavior}: another run is in {path.parent}: nothing is changed; use another --experiment, or move"
            )
            raise ConfigError([f"{problem} that one"])


def _rename(folder: Path) -> None:
    kept = folder.with_name(f"{folder.name}_old_{time.strftime('%Y%m%d_%H%M%S')}")
    while kept.exists():  # two restarts within a second
        kept = kept.with_name(f"{kept.name}_2")
    folder.rename(kept)
    logger.info("The earlier run is kept in %s", kept)


def _check_is_of_a_run(folder: Path, train_dir: Path) -> None:
    """Refuse to delete what no run has made.

    Raises:
        ConfigError: a link leads to it, or it is a folder with something else than a log in it, without config.json.
    """
    if link := find_link_to(folder, train_dir):
        raise ConfigError(
            [
                f"--restart_behavior=overwrite: {link} is a link: nothing is deleted; use another --experiment or "
                "--train_dir, or delete it yourself"
            ]
        )
    # Every run writes its config.json before anything else but its log.
    if not config_path(folder).exists() and any(not path.name.startswith(LOG) for path in folder.iterdir()):
        raise ConfigError(
            [
                f"--restart_behavior=overwrite: {folder} is not the folder of a run, it has no config.json: nothing is "
                "deleted; use another --experiment or --train_dir, or delete it yourself"
            ]
        )


def _empty(folder: Path) -> None:
    """Remove all that is in a run's folder, its config.json last: if this is cut off, it is still a run's folder."""
    config = config_path(folder)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != config:
            path.unlink()
    config.unlink(missing_ok=True)


def _replace_config(config: Config, folder: Path) -> None:
    """Write config.json; what was there before, if anything was, is set aside until this run has trained."""
    path, earlier = config_path(folder), earlier_config_path(folder)
    try:
        if path.exists() and not earlier.exists():  # else a run was killed before it had trained: config.json is its
            with written_whole(earlier) as partial:
                partial.write_bytes(path.read_bytes())
        save_config(config, path)
    except OSError as error:
        problem = f"cannot write {path}: {error.strerror or error}: free space, or use another --train_dir"
        raise ConfigError([problem]) from error


def _end_trial(folder: Path, *, has_trained: bool) -> None:
    """Keep flags that nothing was trained with out of what is told of the earlier run, if there was one.

    Those that a run could not even begin with, such as those of another network, are no part of it either.
    """
    earlier = earlier_config_path(folder)
    with contextlib.suppress(OSError):  # there is none after the first batch
        if has_trained:
            earlier.unlink()
        else:
            earlier.replace(config_path(folder))


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


def _conclude(config: Config, folder: Path, result: RunResult) -> None:
    """Write the trees and figures of a run to its log and, unless they are an earlier run's, to its files."""
    logger.info("The run has ended: %s", result.reason)
    for text in format_trees(result.timings):
        logger.info("%s", text)
    report = make_report(folder.name, result.session, result.steady)
    logger.info("Where the time went:\n%s", format_accounts(report.accounts))
    was_over = _was_over_before(config, result)
    if not was_over and (result.fps or not result.failure):  # advice about what has hardly begun misleads
        logger.info("Verdict: %s", format_verdict(report.verdict))
    if result.keeps_earlier:
        logger.info("Nothing was trained: the recordings and the report of the earlier run stay as they were")
    else:
        _write_results(config, folder, result, report)
    if config.saving.benchmark:
        for name, chosen in result.processes.items():
            threads, cores = ("free" if value is None else value for value in chosen.values())
            logger.info("Chosen for %s: threads %s, cores %s", name, threads, cores)
        logger.info("Steady FPS over the last 75 %% of the frames: %.1f", result.steady_fps)
    logger.info("Collected %s, FPS: %.1f", result.frames, result.fps)
    if was_over:
        frames, target = min(result.frames.values()), config.saving.train_for_env_steps
        message = "Trained for %s of %s frames already: raise --train_for_env_steps to go on"
        logger.warning(message, f"{frames:,}", f"{target:,}")
    elif not result.fps and not result.failure and result.interrupted_by is None:
        logger.warning("Nothing was trained: the run ended before its first batch was complete; let it run for longer")
    if result.failure:
        if result.fps:  # else it may be the checkpoint that it failed of
            _tell_how_to_go_on(config, folder)
        # Once more at the very end, where it is looked for: trees and tables came in between.
        logger.error("The run failed: %s: %s", result.failure.component, result.failure.message)


def _tell_how_to_go_on(config: Config, folder: Path) -> None:
    steps = newest_steps(folder, config.sampling.num_policies)
    if any(steps):
        logger.info(
            "Saved up to optimizer step %s: --restart_behavior=resume, the default, goes on from there",
            " and ".join(f"{number:,}" for number in steps),
        )


def _was_over_before(config: Config, result: RunResult) -> bool:
    """Tell whether the run was resumed at its target, or past it, so that there was nothing to train."""
    if result.fps or result.failure or result.interrupted_by is not None:
        return False
    return min(result.frames.values()) >= config.saving.train_for_env_steps


def _write_results(config: Config, folder: Path, result: RunResult, report: RunReport) -> None:
    _write_report(report, folder / "report.html")
    try:
        write_verdict(folder / "summary", report.verdict, result.frames)
    except OSError as error:
        logger.warning("The verdict is not in TensorBoard: %s", error)
    if not config.saving.benchmark:
        return
    benchmark = {
        "machine": Machine.this().to_dict(),
        "frames": result.frames,
        "elapsed_s": result.elapsed_s,
        "fps": result.fps,
        "steady_fps": result.steady_fps,
        "processes": result.processes,
    }
    try:
        with written_whole(folder / "benchmark.json") as partial:
            partial.write_text(json.dumps(benchmark, indent=2) + "\n")
    except OSError as error:
        logger.warning("There is no benchmark.json: %s", error)


def _write_report(report: RunReport, path: Path) -> None:
    try:
        write_page(report, path)
    except OSError as error:
        logger.warning("There is no report: %s", error)
    else:
        logger.info("Report: %s", path)


def _exit_status(result: RunResult) -> int:
    if result.failure:
        return 1
    if result.interrupted_by is not None:
        return _KILLED_BY_SIGNAL + result.interrupted_by
    return 0
