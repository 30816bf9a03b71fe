"""What a script adds to its run hears what it is connected to: each in the process that it belongs to, and once."""

from __future__ import annotations

import pytest

from sample_profiler.components.messages import EpisodesFinished, Started, Stopped, Stopping, TrainingStep
from sample_profiler.run.extensions.component import RunComponent
from sample_profiler.run.extensions.extensions import Extensions
from sample_profiler.run.extensions.signals import HasSignals
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.child import Finished
from sample_profiler.runtime.processes.failure import Failure


class Mine(RunComponent):
    def on_connect_components(self, runner):
        runner.signals.episodes_finished.connect(self.hear)

    def hear(self, payload):
        """A slot."""


class Connected(HasSignals):
    def __init__(self, *components):
        self.owed, self.failures = [], []
        self.extensions = Extensions(components, ["Learner_0", "RolloutWorker_w0"])
        self.switchboard = self.extensions.switchboard
        self.extensions.join(self.add_slot, self.failures.append)

    def add_slot(self, signal, slot):
        return lambda payload: self.owed.append(payload)

    def take(self, *reports):
        for report in reports:
            self.extensions.take(report, None)


def test_a_method_of_a_component_hears_in_its_process_and_others_in_the_runners():
    mine = Mine()
    run = Connected(mine)
    run.signals.episodes_finished.connect(lambda payload: None)
    run.extensions.connect(run, run.failures.append)
    episodes = EpisodesFinished((), "RolloutWorker_w0")
    run.take(episodes, TrainingStep("Learner_0", 0, 1, 64))
    assert run.owed == [episodes]
    assert run.extensions._mailboxes["Mine"].pending() == [("episodes_finished", "hear", episodes)]
    assert run.extensions.told == {EpisodesFinished}


def test_begin_and_end_of_a_component_are_told_once_with_the_first_cause():
    run = Connected()
    worker = run.component("RolloutWorker_w0")
    for signal in (worker.started, worker.stopping, worker.stopped):
        signal.connect(lambda payload: None)
    name = "RolloutWorker_w0"
    run.take(Heartbeat(name, is_starting=True), Heartbeat(name), Heartbeat(name))
    run.extensions.note_stopping("enough")
    run.take(Failure(name, "ValueError: x", ""), Finished(name))
    run.extensions.note_end(name, "its process exited")
    assert run.owed == [Started(name), Stopping(name, "enough"), Stopped(name, "ValueError: x")]


def test_who_fails_before_it_has_begun_has_not_started():
    run = Connected()
    learner = run.component("Learner_0")
    learner.started.connect(lambda payload: None)
    learner.stopped.connect(lambda payload: None)
    run.take(Failure("Learner_0", "ValueError: x", ""), Heartbeat("Learner_0"), Finished("Learner_0"))
    assert run.owed == [Stopped("Learner_0", "ValueError: x")]


def test_a_slot_of_a_component_that_the_run_does_not_have_is_refused():
    run = Connected()
    with pytest.raises(ValueError, match=r"stopped is of Mine, which the run does not have: hand this very"):
        run.signals.stopped.connect(Mine().hear)


def test_what_a_component_raises_while_it_connects_fails_the_run():
    class Broken(Mine):
        def on_connect_components(self, runner):
            runner.component("Learner_9")

    run = Connected(Broken())
    run.extensions.connect(run, run.failures.append)
    (failure,) = run.failures
    assert failure.component == "Broken"
    assert "there is no component 'Learner_9'" in failure.message
