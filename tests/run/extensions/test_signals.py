"""Signals reach who is connected to them and to their sender, and nobody else."""

from __future__ import annotations

import collections
import functools
from unittest.mock import Mock

import pytest

from sample_profiler.components.messages import EpisodesFinished, Started, TrainingStep
from sample_profiler.run.extensions.signals import HasSignals, Switchboard, takes_arguments


@pytest.fixture
def told():
    return []


@pytest.fixture
def run(told):
    def make_call(signal, slot):
        return lambda payload: told.append((signal.name, slot.__name__, payload))

    runner = HasSignals()
    runner.switchboard = Switchboard(["Learner_0", "Learner_1", "RolloutWorker_w0", "Mine"], ["Mine"], make_call)
    return runner


def hear(payload):
    """A slot."""


def step_of(policy):
    return TrainingStep(f"Learner_{policy}", policy, 1, 64)


def test_signals_of_the_runner_tell_of_all_components_and_those_of_one_of_that_one(run, told):
    run.signals.training_step.connect(hear)
    run.component("Learner_1").training_step.connect(hear)
    for policy in (0, 1):
        run.switchboard.emit(step_of(policy))
    assert told == [("training_step", "hear", step_of(policy)) for policy in (0, 1, 1)]


def test_what_happens_to_every_component_is_told_of_the_runner_alone_by_its_own_signals(run, told):
    run.signals.started.connect(hear)
    run.component("Mine").started.connect(hear)
    for name in ("Learner_0", "Mine", "Runner"):
        run.switchboard.emit(Started(name))
    assert [payload.component for _, _, payload in told] == ["Mine", "Runner"]


def test_what_nobody_is_connected_to_is_not_asked_for(run, told):
    assert run.switchboard.told == frozenset()
    run.switchboard.emit(step_of(0))
    assert told == []
    run.component("Learner_0").training_step.connect(hear)
    assert run.switchboard.told == {TrainingStep}
    run.switchboard.emit(EpisodesFinished((), "RolloutWorker_w0"))
    assert told == []


@pytest.mark.parametrize(
    ("connect", "error", "message"),
    [
        (lambda run: run.component("Learner_7"), ValueError, "no component 'Learner_7'; the run has Runner, "),
        (
            lambda run: run.component("Learner_0").episodes_finished.connect(hear),
            ValueError,
            "Learner_0 has no signal episodes_finished; it has started, stopping, stopped, training_step, ",
        ),
        (lambda run: run.component("Mine").summaries.connect(hear), ValueError, "no signal summaries; it has "),
        (lambda run: run.signals.summaries.connect("hear"), TypeError, "the slot of summaries is 'hear': give a"),
        (
            lambda run: run.signals.stopped.connect(lambda: None),
            TypeError,
            r"the slot of stopped is .* function\(payload",
        ),
        (
            lambda run: run.signals.episode_finished,
            AttributeError,
            "no signal 'episode_finished'; there are started, epi",
        ),
    ],
)
def test_what_cannot_be_connected_is_named(run, connect, error, message):
    with pytest.raises(error, match=message):
        connect(run)


def injecting(slot):
    @functools.wraps(slot)
    def wrapper(payload):
        slot(payload, "more")

    return wrapper


@injecting
def take_two(payload, more):
    """Would not take a payload alone."""


@pytest.mark.parametrize(
    "slot",
    [
        take_two,
        functools.partial(lambda more, payload: None, 1),
        [].append,
        collections.deque().append,
        print,
        Mock(),
        Mock(spec=hear),
        lambda *payloads: None,
        lambda payload, *, more=1: None,
        type("Note", (), {"__init__": lambda self, payload: None}),
    ],
)
def test_what_takes_a_payload_can_be_connected(run, slot):
    run.signals.stopped.connect(slot)
    assert takes_arguments(slot, 1)


def test_annotations_are_the_business_of_who_wrote_them():
    def hear_later(payload):
        pass

    hear_later.__signature__ = "none"  # which inspect does not take
    assert takes_arguments(hear_later, 1)


def test_slots_are_connected_before_components_start(run):
    run.switchboard.is_open = False
    with pytest.raises(ValueError, match=r"training_step: the components have started.* in on_connect_components"):
        run.signals.training_step.connect(hear)
