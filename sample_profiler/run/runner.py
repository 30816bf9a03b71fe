"""The Runner: listens to all components, decides when the run ends, and keeps its books.

Runs in the main process. It does no work that training waits for.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sample_profiler.component_id import LEARNER, RUNNER, ComponentId
from sample_profiler.components.messages import (
    Counters,
    EpisodesFinished,
    EvaluationFinished,
    RankEnded,
    TargetReached,
    TrainingStatistics,
)
from sample_profiler.config import Config
from sample_profiler.errors import CommandError, EnvError
from sample_profiler.profiling import Timing
from sample_profiler.run.commands.control import Control
from sample_profiler.run.commands.requests import AsksComponents
from sample_profiler.run.commands.sender import CommandSender, CommandTarget
from sample_profiler.run.dispatcher import Dispatcher
from sample_profiler.run.extensions.signals import HasSignals
from sample_profiler.run.layout.blueprint import frames_per_step
from sample_profiler.run.lost_components.ends import ComponentEnds
from sample_profiler.run.lost_components.guard import Guard
from sample_profiler.run.lost_components.rescue import Rescue
from sample_profiler.run.observers import RunObserver, SummaryWriter
from sample_profiler.run.records.goals import Goals
from sample_profiler.run.records.sleeps import SLEEP_INTERVAL_S, SleepCounts
from sample_profiler.run.records.statistics import RunStatistics, learning_figures
from sample_profiler.run.runner_links import RunnerLinks
from sample_profiler.run.suspensions import Standstills
from sample_profiler.runtime.commands.commands import CommandResult
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.machine.machine_use import MachineUse
from sample_profiler.runtime.machine.ranks import RankState
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.child import Finished, SharedMemoryNames
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import Failure, FailureLog
from sample_profiler.runtime.signals.ending_signals import SAME_SIGNAL_S, is_soon
from sample_profiler.runtime.signals.suspension import StoodStill
from sample_profiler.vocabulary import FOR_COMPONENTS, FPS, FRAMES, PROGRESS, STOOD_STILL_S, WAIT

__all__ = ["Runner"]

logger = logging.getLogger(__name__)

_STATUS_INTERVAL_S = 1.0
_CONTROL_INTERVAL_S = 0.2
_SERIAL_REST = 1.0  # of the time of a turn of observers: all components wait for them there
_TRAINED = "all policies have been trained for as many frames as asked"
_WARM_UP_ITERATIONS = 3  # networks and environments have been used by then; memory and kernels are there

Message = TypeVar("Message")


class Runner(AsksComponents, HasSignals):
    """Watches a run.

    Args:
        config: of the run.
        counters: that the components share.
        num_agents: that follow each policy.
        run_folder: where the run's files are.
        observers: who is told how the run goes.
        links: with everybody else.
        start_s: when the first component was started (monotonic clock).

    Attributes:
        num_workers: number of rollout workers.
        counters: that the components share.
        goals: what the policies are to reach.
        ends: which components have ended, and how.
        guard: decides what follows when components are in trouble.
        failure: why the run failed; None: it did not.
        reason: why the run ended, in words.
        is_interrupted: whether its user has asked it to end.
        unrecorded: Timing, as plain data, of components that have finished and had no record file, by component.
        command_sender: all components, to be asked for something; empty until `command` is called.
        records: what all processes have recorded.
        standstills: who stood still, and for how long.
    """

    def __init__(
        self,
        config: Config,
        counters: Counters,
        num_agents: Sequence[int],
        run_folder: Path,
        observers: Sequence[RunObserver],
        links: RunnerLinks,
        start_s: float,
    ) -> None:
        self.name = RUNNER
        self.num_workers = config.sampling.num_workers
        self.timing = Timing("Runner profile")
        self.statistics = RunStatistics(
            counters,
            num_agents,
            config.saving,
            frames_per_step(config),
            config.machine.stats_avg,
            start_s,
            links.clock,
        )
        self.counters = counters
        self.goals = Goals(config.saving, self.statistics, counters, config.machine.stats_avg)
        self._failure_log = FailureLog()
        self.extensions = links.extensions
        self.switchboard = self.extensions.switchboard
        self.ends = ComponentEnds(counters, self.fail, self.extensions.note_end)
        self.guard = Guard(config, self.fail, self._replace, self._failure_log, links.processes.rescue, links.clock)
        self.guard.go_on_without(self.extensions.may_be_lost, self._let_go)
        self.failure: Failure | None = None
        self.reason = ""
        self.is_interrupted = False
        self.unrecorded: dict[str, dict[str, Any]] = {}
        self.records = links.records
        self._config = config
        self._links = links
        self._processes = links.processes
        self._reports: list[Any] = list(links.reports)
        self._exits: list[Any] = []
        self._dispatcher = Dispatcher(
            observers,
            self.timing,
            fail=lambda error, who: self.fail(Failure.from_exception(self.name, error, who)),
            is_over=lambda: bool(self.reason),
            rest=_SERIAL_REST if config.sampling.serial_mode else 0.0,
        )
        self.extensions.join(self._dispatcher.add_slot, self.fail)
        self._run_folder = run_folder
        self._answers = LocalReports()
        self.command_sender = CommandSender([], self.take_reports, lambda: self.reason, self.timing)
        self._control: Control | None = None
        policies = range(config.sampling.num_policies)
        learners = [str(ComponentId(LEARNER, policy)) for policy in policies]
        standing = [self.name] if config.sampling.serial_mode else learners
        self.standstills = Standstills(self.name, standing, links.clock)
        self._policies_to_train = set(policies)
        self._sleeps = SleepCounts()
        self._machine_use = MachineUse()

    @property
    def has_failed_itself(self) -> bool:
        """Whether no component is to blame: an observer, a message handler or a slot has raised, or hangs."""
        return self.failure is not None and self.failure.component == self.name

    def connect_components(self) -> None:
        """Have observers and components connect their slots; called once, before any component is started."""
        self._dispatcher.tell("on_connect_components", lambda observer: observer.on_connect_components(self))
        self.extensions.connect(self, self.fail)

    def introduce(self) -> None:
        """Show the run to its observers; called once, before anything is trained."""
        self._dispatcher.tell("on_init", lambda observer: observer.on_init(self))

    def inputs(self) -> list[Input]:
        """Listen to everybody, and tell observers and message handlers what they are owed."""
        return [
            *(Input(source, self.handle_reports) for source in self._reports),
            *(Input(source, self._on_exits) for source in self._exits),
            Input(self._dispatcher.owed, lambda _: self._dispatcher.serve()),
        ]

    def timers(self) -> list[Timer]:
        """Look at the clock, and note what observers are to be told."""
        return [
            Timer(_STATUS_INTERVAL_S, self._update_status),
            Timer(_CONTROL_INTERVAL_S, self._poll_control),
            Timer(SLEEP_INTERVAL_S, self._sleeps.look),
            Timer(self._config.machine.experiment_summaries_interval, self._write_summaries),
        ]

    def gauges(self) -> dict[str, float]:
        """Measure throughput, how busy the machine is, and what the components sleep for."""
        gauges = {FPS: self.statistics.throughput.rate(10)}
        gauges[FRAMES] = float(sum(self.statistics.trained_frames().values()))
        gauges[PROGRESS] = self.statistics.progress()
        gauges[STOOD_STILL_S] = self.statistics.throughput.left_out_s
        return gauges | self._machine_use.gauges() | self._sleeps.gauges()

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer nothing of its own."""
        return {}

    def start(self) -> None:
        """Tell observers, and wait for the first report."""
        self.extensions.take(Heartbeat(self.name), self.command_sender)
        self._dispatcher.tell("on_start", lambda observer: observer.on_start(self))

    def wait_block(self) -> str:
        """Tell that the Runner waits for any component."""
        return WAIT + FOR_COMPONENTS

    def tell_of_stopping(self) -> None:
        """Tell who is connected that the run is about to end, slots of this process before components are gone."""
        self.extensions.note_stopping(self.reason)
        self._dispatcher.hurry_slots()

    def finish(self) -> None:
        """Take the last figures and let observers go."""
        if self._control is not None:
            self._control.close()
        self._leave_out_standstill(at_once=True)
        self._update_status()
        self.records.end_timeline()
        self._dispatcher.forget("on_summaries")  # of these, the last are told of in any case
        status = self.statistics.status()
        self.extensions.emit(status)
        self.extensions.note_end(self.name, self.failure.message if self.failure else "")
        self._dispatcher.close()
        with self._processes.beating():
            self._dispatcher.tell("on_summaries", lambda observer: observer.on_summaries(status))
            self.records.write_timers()
        self._dispatcher.tell_of_end(lambda observer: observer.on_stop(self))

    def watch(self, child: Child) -> None:
        """Listen to a process that was started, and look after it, from now on."""
        logger.info("Started %s as process %d", child.name, child.pid)
        self._reports.append(child.reports)
        self._exits.append(child.exit)
        self._sleeps.watch(child.name, child.pid)
        self.guard.expect(child.name)

    def command(self, members: Sequence[CommandTarget], answers: LocalReports) -> None:
        """Take command of these components, and let other programs ask for captures of them.

        Args:
            members: who can be asked from now on.
            answers: where those of this process answer, who are no other source of reports.
        """
        self._answers = answers
        self.command_sender = CommandSender(members, self.take_reports, lambda: self.reason, self.timing)
        self._control = Control(self._run_folder, self.command_sender, self.interrupt)

    def register_message_handler(self, message_type: type[Message], handler: Callable[[Runner, Message], None]) -> None:
        """Have a function called with every message of a type that components report.

        Args:
            message_type: of `sample_profiler.components.messages`, such as `EpisodesFinished`.
            handler: called with this Runner and the message, after the Runner has taken it in and when it has its next
                turn; in order. What is owed to a slow one when the run has ended is left out.

        Raises:
            TypeError: there are no messages of that type, or the handler does not take two arguments.
        """
        self._dispatcher.add_handler(message_type, handler)

    def add_extra_summaries(self, policy_id: int, env_steps: int, writer: SummaryWriter) -> None:
        """Have all observers add figures of their own; for the one that writes the summaries.

        Args:
            policy_id: number of the policy.
            env_steps: frames that it has been trained on.
            writer: takes the figures.
        """
        self._dispatcher.tell(
            "extra_summaries", lambda observer: observer.extra_summaries(self, policy_id, env_steps, writer)
        )

    def interrupt(self, reason: str) -> None:
        """End the run early, on behalf of its user."""
        self.counters.note_end(RankState.INTERRUPTED)
        self.is_interrupted = True
        self._end(reason)

    def handle_reports(self, reports: list[Any]) -> None:
        """Take in what components report; also called while they are being stopped."""
        for report in reports:
            match report:
                case logging.LogRecord():
                    logging.getLogger(report.name).handle(report)
                case EpisodesFinished():
                    self.statistics.add_episodes(report.episodes)
                    self._update_metrics()
                    if not self.reason and (reached := self.goals.look()):
                        self._end(reached)
                case TrainingStatistics():
                    self.statistics.add_training(report.policy, report.values)
                    self.records.note(learning_figures(report.policy, report.values))
                case EvaluationFinished():
                    self.statistics.add_evaluation(report)
                    logger.info("%s", report)
                case TargetReached():
                    self._policies_to_train.discard(report.policy)
                    if not self._policies_to_train:
                        self._end(self.goals.reached_before() or _TRAINED)
                case RankEnded() if report.was_interrupted:
                    self.interrupt(str(report))
                case RankEnded():
                    self._policies_to_train.discard(report.policy)
                    if not self._policies_to_train:
                        self._end(str(report))
                case Failure():
                    if self.reason:
                        self.ends.note_failed([report.component])
                    self.guard.take_failure(report)
                case Finished():
                    self.ends.note_finished(report.component)
                    if report.unrecorded is not None:
                        self.unrecorded[report.component] = report.unrecorded
                    if self.reason:  # else its process has to end by itself: it may still hang on the way
                        self.guard.forget(report.component)
                case CommandResult():
                    self.command_sender.take(report)
                case Heartbeat():
                    self.guard.hear(report)
                case SharedMemoryNames():
                    self._processes.note_shared_memory(report)
                case StoodStill():
                    self.standstills.note(report)
            self._dispatcher.owe_message(self, report)
            self.extensions.take(report, self.command_sender)

    def take_reports(self) -> None:
        """Take in what components have reported by now, and show that the Runner goes on."""
        self._processes.beat()
        for source in (*self._reports, self._answers):
            self.handle_reports(source.receive())
        self._look_at_clock()
        if not self.reason:  # who is waited for may hang
            self.guard.look_now_and_then()

    def fail(self, failure: Failure) -> None:
        """End the run because of a failure; the first one counts, later ones are often its consequences."""
        self.counters.note_end(RankState.FAILED)
        self._failure_log.write(failure)
        self.ends.note_failed([failure.component])
        if self.failure is None:
            self.failure = failure
        self._end(f"{failure.component} failed")

    def take_error(self, component: str, error: BaseException) -> None:
        """End the run because of what a component of this process raised, unless it is to end anyway.

        A signal to all processes ends simulators, too, maybe before this one gets it.
        """
        failure = Failure.from_exception(component, error)
        if isinstance(error, EnvError) and is_soon(lambda: self.is_interrupted, SAME_SIGNAL_S):
            logger.warning("%s could not go on until the run ended: %s", component, failure.message)
            return
        self.fail(failure)

    def judge(self) -> None:
        """Fail, at the end, if components were lost and nothing was trained: more time would not have helped."""
        lost = self.guard.latest_loss
        has_trained = bool(self.counters.training_iterations.any())
        if self.failure is None and lost is not None and not has_trained and not self.is_interrupted:
            self.failure = lost

    def _end(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason
            self.counters.note_end(RankState.DONE)
        self._links.loop.stop()

    def _on_exits(self, processes: list[Child]) -> None:
        ended = self.guard.await_ends(processes)
        for process in ended:
            self.handle_reports(process.reports.receive())  # it may have said why
            if process.was_asked_to_end and not self.reason:
                time.sleep(SAME_SIGNAL_S)  # whoever ends all processes of a job reaches this one, too, if later
        for process in ended:
            self.extensions.note_end(process.name, f"its process {process.describe_exit()}")
        if self.failure is None and not self.reason:
            self.guard.take_exits(ended)
            if self.ends.has_failures:  # which is told of all of them together
                self.ends.note_failed(process.name for process in ended)

    def _let_go(self, lost: Child, rescue: Rescue) -> None:
        """Go on without a component."""
        self._forget(lost)
        rescue.bury(lost)
        self.command_sender.remove(lost.name)

    def _forget(self, lost: Child) -> None:
        self._reports = [source for source in self._reports if source is not lost.reports]
        self._exits = [source for source in self._exits if source is not lost.exit]
        self._links.loop.refresh()

    def _replace(self, lost: Child, failure: Failure, rescue: Rescue) -> None:
        if self.reason:  # since another one of the same moment was replaced
            logger.warning("%s is lost while the run ends: %s", lost.name, failure.message)
            return
        with self.timing.add_time("replace_worker"):
            self._replace_process(lost, failure, rescue)

    def _replace_process(self, lost: Child, failure: Failure, rescue: Rescue) -> None:
        self._forget(lost)
        try:
            child = rescue.replace(lost, self, self.command_sender.names())
        except (CommandError, OSError) as error:  # OSError: there is no room for another process
            if self.reason:  # meanwhile: nobody has to answer any more
                logger.warning("%s is lost while the run ends: %s", lost.name, failure.message)
                return
            essential = self.guard.find_essential(failure)
            self.fail(essential or replace(failure, message=f"{failure.message} (it cannot be replaced: {error})"))
            return
        self.watch(child)
        self.command_sender.replace(child)
        self.extensions.note_successor(child, self.command_sender)
        self.ends.note_successor(lost.name)
        self.records.add_up_lost(lost.name)
        logger.warning(
            "%s is lost: %s. Process %d takes its place (number %d of at most %d an hour): its environments begin new "
            "episodes, and what it had sampled for rollouts that were not finished is lost",
            *(lost.name, failure.message, child.pid, rescue.replacements.num_recent),
            self._config.faults.max_worker_restarts,
        )

    def _leave_out_standstill(self, *, at_once: bool = False) -> None:
        self.standstills.look()
        if (span_s := self.standstills.settle(at_once=at_once)) is not None:
            self.statistics.throughput.leave_out(*span_s)
            self.counters.goal_times.leave_out(self.statistics.throughput.left_out_s)

    def _update_status(self) -> None:
        self._leave_out_standstill()
        self.statistics.sample()
        self.records.note(self.statistics.episode_figures())
        if not self.reason:  # a run that ends has nothing to be slow at
            self.records.take_reading({FRAMES: float(sum(self.statistics.trained_frames().values()))})
        status = self.statistics.status()
        iterations = int(self.counters.training_iterations.sum())
        if iterations:
            self.records.replace_earlier()
        self._dispatcher.owe_training_steps(
            iterations, lambda observer, number: observer.on_training_step(self, number)
        )
        self._dispatcher.owe("on_status", lambda observer: observer.on_status(status))
        if iterations >= _WARM_UP_ITERATIONS * self._config.sampling.num_policies:
            self.records.begin_steady_part(self._links.update_recording)
        if not self.reason:
            self.guard.look()
        self._look_at_clock()

    def _look_at_clock(self) -> None:
        self.standstills.look()
        if self.standstills.is_open:  # the time may not count
            return
        if self.statistics.elapsed_s >= self._config.saving.train_for_seconds:
            self._end("the run has trained for as many seconds as asked")

    def _poll_control(self) -> None:
        self.records.follow_timeline()
        self.handle_reports(self._answers.receive())
        if self._control is not None:
            self._control.poll()
        self.extensions.look(self.command_sender)

    def _write_summaries(self) -> None:
        status = self.statistics.status()

        def tell(observer: RunObserver) -> None:
            with self._processes.beating():
                observer.on_summaries(status)

        self._dispatcher.owe("on_summaries", tell)
        self.extensions.emit(status)
        with self._processes.beating():
            self.records.write_timers()

    def _update_metrics(self) -> None:
        for policy in range(self._config.sampling.num_policies):
            metric = self.statistics.metric(policy)
            self.counters.metric[policy] = math.nan if metric is None else metric
