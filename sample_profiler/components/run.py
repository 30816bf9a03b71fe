"""Owns the course of a run: lay it out, start it in one of its two wirings, end it, and say how it went."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from sample_profiler.components.blueprint import Blueprint, make_blueprint
from sample_profiler.components.course import keep_course
from sample_profiler.components.crew import LocalMember
from sample_profiler.components.observers import RunObserver
from sample_profiler.components.rescue import Rescue
from sample_profiler.components.run_records import RunRecords
from sample_profiler.components.runner import Runner
from sample_profiler.components.topology import describe_processes, plan_components, recording_options
from sample_profiler.config import Config
from sample_profiler.envs import EnvSpec, export_registration, inspect_env, make_env
from sample_profiler.errors import ConfigError, EnvError, SampleProfilerError
from sample_profiler.profiling import TWIN, Session, set_timing
from sample_profiler.runtime.channels import LocalChannel, LocalReports, PipeChannel
from sample_profiler.runtime.child import Failure, finish_component, report_end
from sample_profiler.runtime.event_loop import Component, EventLoop, LocalWaiter, PipeWaiter, Timer
from sample_profiler.runtime.machine import Machine, draw_seed, tame_numerical_libraries
from sample_profiler.runtime.process_captures import CHECK_INTERVAL_S, end_captures, end_due_captures
from sample_profiler.runtime.recording import Recording
from sample_profiler.runtime.supervisor import Supervisor
from sample_profiler.runtime.turns import Turns
from sample_profiler.spaces import is_discrete
from sample_profiler.storage.sampling_plan import make_sampling_plan
from sample_profiler.storage.trajectories import TrajectoryLayout

__all__ = ["RunResult", "check_spaces", "choose_device", "execute_run", "probe_env"]

logger = logging.getLogger(__name__)

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE_AFTER_FAILURE_S = 4.0
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd")


@dataclass(frozen=True)
class RunResult:
    """How a run went.

    Attributes:
        failure: why it failed; None: it did not.
        reason: why it ended, in words.
        interrupted_by: number of the signal that ended it; None: it ended by itself.
        frames: by policy: that were trained on, earlier runs included.
        fps: frames of all policies trained on in this run, over the seconds since the first component was started.
        steady_fps: the same over the last 75 % of the frames.
        elapsed_s: since the first component was started.
        timings: Timing of every component, as plain data, by component; the Runner's last.
        session: what all processes have recorded.
        steady: the same without start and end of the run; without processes if it was over before it was steady.
        processes: threads and cores that were chosen for each component; empty for a serial run.
    """

    failure: Failure | None
    reason: str
    interrupted_by: int | None
    frames: dict[int, int]
    fps: float
    steady_fps: float
    elapsed_s: float
    timings: dict[str, dict[str, Any]]
    session: Session
    steady: Session
    processes: dict[str, dict[str, object]]


def probe_env(config: Config) -> EnvSpec:
    """Make the run's environment once and read its spaces.

    Raises:
        UnknownEnvError: there is no environment of that name.
        EnvContractError: it is not what an environment has to be.
        EnvError: its constructor raised.
    """
    name = config.run.env
    try:
        env = make_env(name, config, None)
    except SampleProfilerError:
        raise
    except Exception as error:
        raise EnvError(f"the environment {name} raised in its constructor: {type(error).__name__}: {error}") from error
    try:
        return inspect_env(env, name)
    finally:
        with contextlib.suppress(Exception):
            env.close()


def check_spaces(config: Config, env_spec: EnvSpec) -> None:
    """Find what in the configuration does not fit the environment, before anything is made or overwritten.

    Raises:
        ConfigError: with all problems.
    """
    problems: list[str] = []
    try:
        plan = make_sampling_plan(config.sampling, env_spec.num_agents)
    except ConfigError as error:
        problems += error.problems
    else:
        num_bytes = TrajectoryLayout.of(plan, env_spec, config.model.rnn_state_size).num_bytes
        if num_bytes > Machine.this().memory_gib * 2**30:
            problems.append(
                f"{plan.num_slots:,} trajectories of {plan.rollout:,} steps take {num_bytes >> 30:,} GiB, more than "
                "the machine has: use a smaller --rollout, --batch_size, --num_batches_to_accumulate, "
                "--num_envs_per_worker or --num_workers"
            )
    if config.loss.exploration_loss == "symmetric_kl" and not is_discrete(env_spec.action_space):
        problems.append(
            f"--exploration_loss=symmetric_kl: it is for discrete actions, and those of {config.run.env} are "
            f"{env_spec.action_space}: use --exploration_loss=entropy"
        )
    if problems:
        raise ConfigError(problems)


def choose_device(config: Config) -> str:
    """Return "cuda" or "cpu" as `--device` asks.

    Raises:
        ConfigError: a GPU is asked for and there is none.
    """
    wanted = config.run.device
    if wanted == "cpu" or (wanted == "auto" and not any(Path(path).exists() for path in _GPU_DRIVERS)):
        return "cpu"
    import torch  # only now: without a GPU the main process does without it

    if torch.cuda.is_available():
        return "cuda"
    if wanted == "gpu":
        raise ConfigError(["--device=gpu: PyTorch finds no GPU on this machine: use --device=cpu or --device=auto"])
    return "cpu"


def execute_run(
    config: Config,
    env_spec: EnvSpec,
    device: str,
    run_folder: Path,
    observers: Sequence[RunObserver],
    started_ns: int | None = None,
) -> RunResult:
    """Train until the run ends, however it ends.

    Args:
        config: of the run.
        env_spec: from `probe_env`.
        device: from `choose_device`.
        run_folder: where the run's files go; exists.
        observers: who is told how the run goes.
        started_ns: when the run began, on the clock of blocks; its recordings count from there. None: now.
    """
    started_ns = time.perf_counter_ns() if started_ns is None else started_ns
    seed = config.run.seed if config.run.seed is not None else draw_seed()
    is_serial = config.sampling.serial_mode
    blueprint = make_blueprint(
        config=config,
        seed=seed,
        env_payload=export_registration(config.run.env),
        env_spec=env_spec,
        run_folder=run_folder,
        device=device,
        make_channel=LocalChannel if is_serial else PipeChannel,
    )
    _log_layout(blueprint, seed)
    RunRecords(run_folder, config.profiling).clear()
    recording = Recording(recording_options(config, run_folder), "Serial" if is_serial else "Runner")
    interrupted: list[int] = []

    def interrupt(number: int) -> None:
        interrupted.append(number)
        runner.interrupt(f"interrupted by {signal.Signals(number).name}")

    with contextlib.ExitStack() as stack:
        with _signals_held():
            make_wiring = _SerialWiring if is_serial else _ParallelWiring
            wiring = make_wiring(blueprint, observers, recording, started_ns)
            runner = wiring.runner
            recording.attach(runner)
            stack.enter_context(_signals_calling(interrupt, wiring.kill))
        try:
            with runner.timing.add_time("main_loop"):
                wiring.run()
        except Exception as error:
            runner.fail(Failure.from_exception(wiring.active_component(), error))
        finally:
            with runner.timing.add_time("stop_components"):
                recording.update()
                steady = runner.records.end_steady_part()
                wiring.stop()
    with runner.timing.add_time("finish"):
        recording.update()
        runner.finish()
    runner.timings[runner.name] = runner.timing.to_dict()
    recording.close()
    statistics = runner.statistics
    facts: dict[str, Any] = {
        "frames": dict(enumerate(blueprint.counters.trained_frames.tolist())),
        "fps": sum(statistics.trained_frames().values()) / statistics.elapsed_s,
        "steady_fps": statistics.throughput.steady_rate(),
        "elapsed_s": statistics.elapsed_s,
    }
    told = {"reason": runner.reason, "failure": None if runner.failure is None else runner.failure.message}
    return RunResult(
        failure=runner.failure,
        reason=runner.reason,
        interrupted_by=interrupted[0] if interrupted else None,
        **facts,
        timings=runner.timings,
        session=runner.records.write_session({**told, **facts, "seed": seed}, is_clean=runner.failure is None),
        steady=steady,
        processes={} if is_serial else describe_processes(blueprint),
    )


def _log_layout(blueprint: Blueprint, seed: int) -> None:
    sampling, plan = blueprint.config.sampling, blueprint.plan
    logger.info("Seed %d, device %s, recorder: %s", seed, blueprint.device, TWIN)
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


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Keep Ctrl+C and SIGTERM waiting; processes that are spawned meanwhile hold them, too, until they are ready."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _signals_calling(interrupt: Callable[[int], None], kill: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl+C or SIGTERM end the run in order, and the second at once."""
    received: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            interrupt(number)
        else:
            kill()
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals; who runs us elsewhere takes care of them
        return
    previous = [signal.signal(number, handle) for number in _ENDING_SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_ENDING_SIGNALS, previous, strict=True):
            signal.signal(number, handler)


class _ParallelWiring:
    """Every component in a process of its own; the Runner in this one."""

    def __init__(
        self, blueprint: Blueprint, observers: Sequence[RunObserver], recording: Recording, started_ns: int
    ) -> None:
        self._supervisor = Supervisor()
        start_s = time.monotonic()
        try:
            for plan in plan_components(blueprint):
                self._supervisor.spawn(plan.settings, plan.make)
        except BaseException:  # Ctrl+C, too: this process would wait for the children at its exit, and they for it
            self._supervisor.kill()
            raise
        children = self._supervisor.children
        self.runner = Runner(
            blueprint.config,
            blueprint.counters,
            [child.reports for child in children],
            [child.exit for child in children],
            observers,
            start_s,
            blueprint.run_folder,
        )
        self.runner.timing.backdate(started_ns)
        self.runner.guard.expect(child.name for child in children)
        answers = LocalReports()
        self.runner.command([LocalMember(self.runner, answers), *children], answers)
        timers = [recording.timer(), Timer(CHECK_INTERVAL_S, end_due_captures)]
        self._loop = EventLoop([self.runner], PipeWaiter, self._supervisor.beat, timers=timers)
        self.runner.stop_loop = self._loop.stop
        self.runner.refresh_loop = self._loop.refresh
        self.runner.guard.rescue = Rescue(blueprint, self._supervisor)

    def run(self) -> None:
        self._loop.run()

    def stop(self) -> None:
        grace_s = _GRACE_AFTER_FAILURE_S if self.runner.failure else math.inf
        end_captures()
        with self.runner.timing.add_time("wait_components"):
            killed = self._supervisor.stop(grace_s, self._take_reports)
        for child in killed:
            message = f"it did not end within {min(grace_s, child.patience_s):g} seconds and was killed"
            if child.name.startswith("Learner"):
                lost = "; what it had learned since its last checkpoint is lost"
                self.runner.fail(Failure(child.name, message + lost, ""))
            else:
                logger.warning("%s: %s", child.name, message)

    def kill(self) -> None:
        self._supervisor.kill()

    def active_component(self) -> str:
        return self.runner.name

    def _take_reports(self) -> None:
        for child in self._supervisor.children:
            self.runner.handle_reports(child.reports.receive())


class _SerialWiring:
    """All components in this process, one loop for all of them."""

    def __init__(
        self, blueprint: Blueprint, observers: Sequence[RunObserver], recording: Recording, started_ns: int
    ) -> None:
        self._blueprint = blueprint
        self._recording = recording
        self._started_ns = started_ns
        self._turns = Turns()
        self._components: list[Component] = []
        self._reports = LocalReports()
        self._active = ""
        self._loop: EventLoop | None = None
        self.runner = Runner(
            blueprint.config,
            blueprint.counters,
            [self._reports],
            [],
            observers,
            time.monotonic(),
            blueprint.run_folder,
        )
        self.runner.timing.backdate(started_ns)

    def run(self) -> None:
        tame_numerical_libraries()
        turns, runner = self._turns, self.runner
        turns.begin(runner.name)
        turns.join(runner.name, runner.timing)
        for plan in plan_components(self._blueprint):
            self._active = plan.settings.name
            turns.begin(self._active)
            component = plan.make(self._reports)
            turns.join(self._active, component.timing)
            component.timing.backdate(self._started_ns)
            self._recording.attach(component)
            self._components.append(component)
        if not runner.reason:
            answers = LocalReports()
            runner.command([LocalMember(component, answers) for component in (runner, *self._components)], answers)
            timers = [self._recording.timer(), Timer(CHECK_INTERVAL_S, end_due_captures)]
            self._loop = EventLoop([runner, *self._components], LocalWaiter, turns=turns, timers=timers)
            runner.stop_loop = self._loop.stop
            keep_course(self._blueprint, self._components, self._loop)
            self._loop.run()

    def stop(self) -> None:
        for component in self._components:
            self._turns.begin(component.name)
            set_timing(component.timing, process_wide=True)
            finish_component(component, self._reports)
        self._turns.begin(self.runner.name)
        end_captures()
        self._turns.settle()
        for component in self._components:
            report_end(component, self._reports)
        self.runner.handle_reports(self._reports.receive())

    def kill(self) -> None:
        """Nothing but this process is there to be ended."""

    def active_component(self) -> str:
        return self._loop.active.name if self._loop else self._active
