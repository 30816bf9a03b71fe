"""Owns what the `train_*` commands do: from a command line to the exit status of a run."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import replace

from sample_profiler.cli.common.program import Program
from sample_profiler.cli.common.statuses import BAD_USAGE, status_of_interrupt
from sample_profiler.cli.tracking.choice import with_usable_trackers
from sample_profiler.cli.training.folder_checks import describe_refused
from sample_profiler.cli.training.launcher_watch import LauncherWatch
from sample_profiler.cli.training.logs import RunLog
from sample_profiler.config import Config, parse_run_config
from sample_profiler.config.seeds import draw_seed
from sample_profiler.errors import (
    ConfigError,
    SampleProfilerError,
    UnknownEnvError,
    describe_error,
    is_out_of_threads,
)
from sample_profiler.files import expand_home
from sample_profiler.run.env_probe import EnvProbe, begin_probe
from sample_profiler.run.extensions.component import RunComponent
from sample_profiler.run.observers import RunObserver
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.machine.ranks import RankPlace, find_rank_place, take_share_of_machine
from sample_profiler.runtime.machine.ray_cluster import check_cluster, import_ray
from sample_profiler.runtime.processes.launcher_gone import find_launcher
from sample_profiler.runtime.processes.main_module import check_main_module
from sample_profiler.runtime.signals.ending_signals import signals_raising
from sample_profiler.runtime.surroundings.alarms import alarms_survived
from sample_profiler.runtime.surroundings.crashes import crashes_told
from sample_profiler.runtime.surroundings.exit_blockers import ExitBlockers
from sample_profiler.runtime.surroundings.outputs import outputs_kept
from sample_profiler.storage.checkpoint_names import newest_steps

__all__ = ["train_as_told"]

logger = logging.getLogger(__name__)


def train_as_told(
    program: Program, observers: Sequence[RunObserver], started_ns: int, components: Sequence[RunComponent] = ()
) -> int:
    """Train, and tell what is in the way if it cannot be done.

    Args:
        program: that trains.
        observers: are told how the run goes.
        started_ns: when the run began, on the clock of blocks.
        components: of the user's own.

    Returns:
        Exit status, as of `train`.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(crashes_told())
        stack.enter_context(outputs_kept())
        log = stack.enter_context(contextlib.closing(RunLog()))
        stack.enter_context(signals_raising())
        try:
            return _train(program, observers, log, stack, started_ns, components)
        except ConfigError as error:
            logger.error("%s", error)
        except SampleProfilerError as error:
            # Its own message says what is wrong; a foreign cause needs its traceback.
            logger.error("%s", error, exc_info=error.__cause__)
        except OSError as error:  # of the run's folder or its processes: later failures are part of the run's report
            text, is_clear = describe_refused(error)
            logger.error("%s", text, exc_info=not is_clear)
        except RuntimeError as error:
            if not is_out_of_threads(error):
                raise
            logger.error("%s", describe_error(error))
        except KeyboardInterrupt as error:  # without a message it came before the run or after it
            logger.error("%s", str(error) or "Interrupted")
            return status_of_interrupt(error)
        return BAD_USAGE


def _train(
    program: Program,
    observers: Sequence[RunObserver],
    log: RunLog,
    stack: contextlib.ExitStack,
    started_ns: int,
    components: Sequence[RunComponent],
) -> int:
    place = find_rank_place(os.environ)
    launcher = find_launcher(os.environ)
    take_share_of_machine(place)
    if not place.is_first:
        log.keep_to_warnings()
    config = parse_run_config(program.argv, extra_parts=program.extra_parts, defaults=program.defaults)
    if config.remote.backend == "ray":
        config = _fit_to_remote_sampling(config, place)
    config = _with_absolute_profile_dir(_with_seed(config))
    if place.is_first:  # no other rank tells a tracker
        config = with_usable_trackers(config)
    config = place.name_run(config, newest_steps(config.run.folder, config.sampling.num_policies))
    if not config.sampling.serial_mode:
        check_main_module()
    folder = config.run.folder  # what is absolute stays where it is, whatever an environment does
    is_new = not folder.exists()
    blockers = ExitBlockers(config.faults.hang_timeout)
    if config.sampling.serial_mode:
        stack.callback(blockers.let_go)
        stack.enter_context(alarms_survived())
    # What an earlier run has left is not touched for an environment that cannot be used.
    probe = _begin_probe(config, stack, takes_step=not is_new)
    # Not before: it takes as long as the process needs that tries the environment meanwhile.
    from sample_profiler.cli.training.training_run import train_with

    if launcher is not None:
        observers = [*observers, LauncherWatch(launcher)]
    blockers.exit_status = train_with(
        config, probe, observers, log, stack, started_ns, is_new=is_new, components=components, place=place
    )
    return blockers.exit_status


def _fit_to_remote_sampling(config: Config, place: RankPlace) -> Config:
    """Let nobody wait for each other where nodes sample beside the Learner's own, unless that was asked for.

    Raises:
        ConfigError: with all that cannot be then; or Ray is not installed.
    """
    if config.origin("async_rl") in ("default", "family"):
        origins = {**config.origins, "async_rl": "automatic"}
        config = replace(config, sampling=replace(config.sampling, async_rl=True), origins=origins)
    sampling = config.sampling
    problems = {
        "--async_rl=False: what others sample comes when it comes: use --async_rl=True": not sampling.async_rl,
        "--serial_mode=True: others are waited for in a process of its own: use --serial_mode=False": (
            sampling.serial_mode
        ),
        f"--num_policies={sampling.num_policies}: others sample for one policy: use 1": sampling.num_policies > 1,
        f"{place.size} ranks, each of which would have actors: start it without torchrun": place.size > 1,
    }
    if found := [f"--backend=ray with {problem}" for problem, is_there in problems.items() if is_there]:
        raise ConfigError(found)
    import_ray()
    check_cluster(config)
    return config


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
    if config.origin("profile_dir") == "saved" and not RunFolder(config.run.folder).live(folder).path.exists():
        # A config.json that came from another machine does not choose where files are made on this one.
        logger.warning(
            "Records of this run go to its own folder: there are none of it in --profile_dir=%s, as its config.json "
            "says; give the flag again to have them there",
            folder,
        )
        folder = ""
    return replace(config, profiling=replace(config.profiling, profile_dir=folder))
