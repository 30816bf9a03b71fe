"""Environments are told the newest of what a component wants, also those of a worker's successor."""

from __future__ import annotations

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.run.commands.sender import CommandSender
from sample_profiler.run.extensions.env_calls import CallEnvs, EnvCalls
from sample_profiler.runtime.commands.commands import CommandResult
from tests.run.runner_doubles import FakeChild


class Asked:
    def __init__(self):
        self.workers = [FakeChild("RolloutWorker_w0", 10), FakeChild("RolloutWorker_w1", 11)]
        members = [FakeChild("Learner_0", 12), *self.workers]
        self.sender = CommandSender(members, lambda: None, lambda: "", Timing("t"))
        self.failures = []
        self.calls = EnvCalls(self.failures.append)

    def want(self, *numbers):
        for number in numbers:
            self.calls.take(CallEnvs("Mine", "set_difficulty", (number,)), self.sender)

    def answer(self, worker, error=None):
        number = self.workers[worker].commands[-1].number
        self.sender.take(CommandResult(number, f"RolloutWorker_w{worker}", None, error))
        self.calls.look(self.sender)

    def told(self, worker):
        return [command.arguments for command in self.workers[worker].commands]


@pytest.fixture
def asked():
    return Asked()


def test_while_workers_have_not_answered_the_newest_call_waits_in_the_place_of_others(asked):
    asked.want(1, 2, 3)
    assert asked.told(0) == asked.told(1) == [("set_difficulty", (1,))]
    asked.answer(0)
    assert len(asked.told(0)) == 1
    asked.answer(1)
    assert asked.told(0) == asked.told(1) == [("set_difficulty", (1,)), ("set_difficulty", (3,))]
    assert asked.sender.members[0].commands == [], "only RolloutWorkers have environments"


def test_a_worker_that_is_lost_keeps_nobody_waiting_and_its_successor_is_told(asked):
    asked.want(1, 2)
    asked.answer(0)
    successor = FakeChild("RolloutWorker_w1", 99)
    asked.sender.replace(successor)
    asked.calls.repeat(successor, asked.sender)
    asked.calls.look(asked.sender)
    assert [command.arguments for command in successor.commands][-1] == ("set_difficulty", (2,))
    assert asked.told(0)[-1] == ("set_difficulty", (2,))


def test_what_environments_cannot_do_is_the_failure_of_who_asked_for_it(asked):
    asked.want(1)
    asked.answer(0, "Traceback\nEnvContractError: environment 0 (x) has no method set_difficulty()")
    assert [(failure.component, failure.message) for failure in asked.failures] == [
        (
            "Mine",
            "its call_envs('set_difficulty') failed: RolloutWorker_w0: EnvContractError: environment 0 (x) has no "
            "method set_difficulty()",
        )
    ]


def test_what_a_successor_cannot_do_fails_the_run(asked):
    asked.want(1)
    asked.answer(0)
    successor = FakeChild("RolloutWorker_w1", 99)
    asked.sender.replace(successor)
    asked.calls.repeat(successor, asked.sender)
    error = "Traceback\nValueError: too difficult"
    asked.sender.take(CommandResult(successor.commands[-1].number, "RolloutWorker_w1", None, error))
    asked.calls.look(asked.sender)
    assert [failure.component for failure in asked.failures] == ["Mine"]
    assert "RolloutWorker_w1: ValueError: too difficult" in asked.failures[0].message
