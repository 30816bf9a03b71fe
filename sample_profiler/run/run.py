"""Owns a run from its start to its end: lay it out, start it in one of its wirings, end it, and say how it went."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sample_profiler.config import Config
from sample_profiler.config.seeds import draw_seed
from sample_profiler.envs import EnvSpec, export_registration
from sample_profiler.errors import RecordError
from sample_profiler.profiling import TWIN, Session
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.reports.sections.hang import describe_latest_place
from sample_profiler.run.checks.spaces import log_images
from sample_profiler.run.env_probe import EnvProbe
from sample_profiler.run.extensions.component import RunComponent
from sample_profiler.run.layout.blueprint import Blueprint, MakeRemoteSampler, choose_transport, make_blueprint
from sample_profiler.run.layout.topology import describe_processes, recording_options
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.goals import GoalsReport
from sample_profiler.run.records.run_records import RunRecords
from sample_profiler.run.runner import Runner
from sample_profiler.run.wiring import ParallelWiring, SerialWiring, Surroundings
from sample_profiler.runtime.loop.recording import Recording
from sample_profiler.runtime.machine.ranks import ALONE, RankPlace
from sample_profiler.runtime.processes.failure import Failure, HangError
from sample_profiler.runtime.processes.main_thread_watch import MainThreadWatch
from sample_profiler.runtime.signals.ending_signals import drop_dead_terminal, signals_calling
from sample_profiler.runtime.signals.suspension import looking
from sample_profiler.vocabulary import MAIN_LOOP

__all__ = ["RunResult", "execute_run"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunResult:
    """How a run went.

    Attributes:
        failure: why it failed; None: it did not.
        reason: why it ended, in words.
        interrupted_by: number of the signal that ended it; None: it ended by itself.
        frames: by policy: that were trained on, earlier runs included.
        fps: frames of all policies trained on in this run, over `elapsed_s`.
        steady_fps: the same over the last 75 % of the frames.
        elapsed_s: since the first component was started, without the time for which the run stood still.
        unrecorded: Timing, as plain data, of components whose process had no record file, by component.
        session: what all processes have recorded.
        steady: the same without start and end of the run; without processes if it was over before it was steady.
        processes: threads and cores that were chosen for each component; empty for a serial run.
        keeps_earlier: the folder has the recordings of the run that it was to go on with: it has trained nothing.
        process_s: since its process was started, or since `train` was called in another program, as `elapsed_s`.
        goals: what its policies were to reach, and when they have.
    """

    failure: Failure | None
    reason: str
    interrupted_by: int | None
    frames: dict[int, int]
    fps: float
    steady_fps: float
    elapsed_s: float
    unrecorded: dict[str, dict[str, Any]]
    session: Session
    steady: Session
    processes: dict[str, dict[str, object]]
    keeps_earlier: bool = False
    process_s: float = 0.0
    goals: GoalsReport = field(default_factory=GoalsReport)


def execute_run(
    config: Config,
    env_spec: EnvSpec,
    device: str,
    run_folder: Path,
    observers: Sequence[RunObserver],
    started_ns: int | None = None,
    probe: EnvProbe | None = None,
    components: Sequence[RunComponent] = (),
    place: RankPlace = ALONE,
    make_remote_sampler: MakeRemoteSampler | None = None,
) -> RunResult:
    """Train until the run ends, however it ends.

    Args:
        config: of the run.
        env_spec: from `probe_env`.
        device: from `choose_device`.
        run_folder: where the run's files go; exists.
        observers: who is told how the run goes.
        started_ns: when the run began, on the clock of blocks; its recordings count from there. None: now.
        probe: of the environment, which is still being closed while the run begins. None: that is over.
        components: of the user's own.
        place: of this run among those that train the same policies.
        make_remote_sampler: makes the component that brings trajectories of other machines; None: none do.
    """
    started_ns = time.perf_counter_ns() if started_ns is None else started_ns
    seed = config.run.seed if config.run.seed is not None else draw_seed()
    blueprint = make_blueprint(
        config=config,
        seed=seed,
        env_payload=export_registration(config.run.env),
        env_spec=env_spec,
        run_folder=run_folder,
        device=device,
        transport=choose_transport(config.sampling),
        place=place,
        make_remote_sampler=make_remote_sampler,
    )
    _log_layout(blueprint, seed)
    records = RunRecords(run_folder, config.profiling, probe.metadata if probe else None)
    records.set_earlier_aside()
    try:
        return _run_to_the_end(blueprint, observers, records, started_ns, seed, probe, components)
    except BaseException:  # a second Ctrl+C, too
        records.put_earlier_back()
        raise


def _run_to_the_end(
    blueprint: Blueprint,
    observers: Sequence[RunObserver],
    records: RunRecords,
    started_ns: int,
    seed: int,
    probe: EnvProbe | None,
    components: Sequence[RunComponent],
) -> RunResult:
    is_serial = blueprint.config.sampling.serial_mode
    options = recording_options(blueprint.config, blueprint.run_folder)
    recording = Recording(options, "Serial" if is_serial else "Runner")
    interrupted: list[int] = []

    def interrupt(number: int) -> None:
        interrupted.append(number)
        drop_dead_terminal()
        runner.interrupt(f"interrupted by {signal.Signals(number).name}")

    try:
        make_wiring = SerialWiring if is_serial else ParallelWiring
        watch = MainThreadWatch(blueprint.config.faults.hang_timeout, partial(_locate, recording))
        surroundings = Surroundings(recording, records, started_ns, watch, probe)
        wiring = make_wiring(blueprint, observers, surroundings, components)
        runner = wiring.runner
        with watch:
            with looking(runner.standstills.look), signals_calling(interrupt, wiring.kill):
                wiring.start()
                try:
                    _run_loop(wiring)
                    _tell_of_end(runner)
                finally:
                    with runner.timing.add_time("stop_components"):
                        with watch.patient():
                            steady = _end_steady_part(recording, records)
                        wiring.stop()
            with runner.timing.add_time("finish"):
                recording.update()
                runner.judge()
                _finish(runner)
        if recording.path is None:
            runner.unrecorded[runner.name] = runner.timing.to_dict()
    finally:
        recording.close()  # also if nothing was begun: another run in this process has its own
    return _make_result(blueprint, runner, steady, seed, interrupted[0] if interrupted else None)


def _run_loop(wiring: ParallelWiring | SerialWiring) -> None:
    try:
        with wiring.runner.timing.add_time(MAIN_LOOP):
            wiring.run()
    except BaseException as error:  # whoever calls sys.exit() shall not take the others along
        if isinstance(error, KeyboardInterrupt):
            raise
        wiring.runner.take_error(wiring.active_component(), error)


def _finish(runner: Runner) -> None:
    try:
        runner.finish()
    except HangError as error:  # an observer does
        runner.fail(Failure.from_exception(runner.name, error))


def _locate(recording: Recording) -> str:
    """Return where this process is, for a thread beside the one that hangs; empty: that cannot be seen."""
    try:
        record = read_record_file(recording.path, with_events=False, with_histograms=False) if recording.path else None
    except (RecordError, OSError):
        return ""
    return describe_latest_place(record, time.perf_counter_ns()) if record else ""


def _tell_of_end(runner: Runner) -> None:
    """Say that the run ends before its components do, which may take a while.

    Not where the reason is noted: that may be a signal's handler, in the middle of whatever a pipe is used for.
    """
    hint = "; another Ctrl+C or SIGTERM ends them at once" if runner.is_interrupted else ""
    logger.info("Ending all components: %s%s", runner.reason, hint)
    runner.tell_of_stopping()


def _end_steady_part(recording: Recording, records: RunRecords) -> Session:
    """Return the steady part; whatever comes in between, components still have to be stopped."""
    try:
        recording.update()
        return records.end_steady_part()
    except Exception as error:
        logger.warning("There are no figures of the steady part: %s: %s", type(error).__name__, error)
        return Session(created_s=time.time())


def _make_result(
    blueprint: Blueprint, runner: Runner, steady: Session, seed: int, interrupted_by: int | None
) -> RunResult:
    """Say how a run went that is over, and write its session.

    Args:
        blueprint: of the run.
        runner: has finished.
        steady: what was recorded of the steady part.
        seed: of the run.
        interrupted_by: number of the signal that ended it; None: it ended by itself.
    """
    statistics, records, failure = runner.statistics, runner.records, runner.failure
    facts: dict[str, Any] = {
        "frames": dict(enumerate(blueprint.counters.trained_frames.tolist())),
        "fps": sum(statistics.trained_frames().values()) / statistics.elapsed_s,
        "steady_fps": statistics.throughput.steady_rate(),
        "elapsed_s": statistics.elapsed_s,
    }
    goals = runner.goals.report()
    plan, trajectories = blueprint.plan, blueprint.trajectories
    sizes = {
        "dataset_bytes": trajectories.num_bytes * plan.dataset_slots // max(1, plan.num_slots),
        "weights_bytes": blueprint.weights[0].num_bytes,
        "num_ranks": blueprint.place.size,
    }
    told = {"reason": runner.reason, "failure": None if failure is None else failure.message, **goals.facts, **sizes}
    return RunResult(
        failure=failure,
        reason=runner.reason,
        interrupted_by=interrupted_by,
        **facts,
        unrecorded=runner.unrecorded,
        session=records.write_session({**told, **facts, "seed": seed}, steady, is_clean=failure is None),
        steady=steady,
        processes=(
            {}
            if blueprint.config.sampling.serial_mode
            else describe_processes(blueprint, runner.extensions.plan(blueprint))
        ),
        keeps_earlier=records.keeps_earlier,
        process_s=facts["elapsed_s"] + blueprint.counters.goal_times.start_up_s,
        goals=goals,
    )


def _log_layout(blueprint: Blueprint, seed: int) -> None:
    sampling, plan = blueprint.config.sampling, blueprint.plan
    logger.info(
        "Seed %d, device %s, recorder: %s, transport: %s", seed, blueprint.device, TWIN, blueprint.transport.name
    )
    logger.info(
        "%d workers x %d environments x %d agents; %d trajectory slots of %d steps (%.0f MiB); trains on %d at once",
        sampling.num_workers,
        sampling.num_envs_per_worker,
        plan.num_agents,
        plan.num_slots,
        plan.rollout,
        blueprint.trajectories.num_bytes / 2**20,
        plan.dataset_slots,
    )
    for spec in blueprint.env_spec.of_kinds():
        log_images(blueprint.config, spec.observation_space)
