"""Components are asked for something, and answer, or cannot any more."""

from __future__ import annotations

import contextlib

import pytest

from sample_profiler.errors import CommandError, ComponentLostError, RunEndedError
from sample_profiler.profiling import Timing
from sample_profiler.run.commands.sender import CommandSender
from sample_profiler.runtime.commands.commands import CommandResult

LONG_S = 1e9


class Member:
    """A component in another process, which may die when it is asked, before or after it has answered."""

    pid = 1

    def __init__(self, name, dies=False, answers=True, error=None):
        self.name, self.dies, self.answers, self.error = name, dies, answers, error
        self.reports, self.asked = [], []
        self.lives = True

    def send_command(self, command):
        self.asked.append((command.method, command.arguments))
        if self.answers:
            self.reports.append(CommandResult(command.number, self.name, 7, self.error))
        self.lives = not self.dies

    def is_alive(self):
        return self.lives


def make_sender(*members, end_reason="", timing=None):
    def take_reports():
        for member in members:
            while member.reports:
                command_sender.take(member.reports.pop())

    command_sender = CommandSender(members, take_reports, lambda: end_reason, timing or Timing("Runner profile"))
    return command_sender


def ask(command_sender):
    return command_sender.call("look", dict.fromkeys(command_sender.names(), ()), LONG_S)


def test_who_dies_before_answering_is_named_at_once():
    command_sender = make_sender(Member("Batcher_0"), Member("RolloutWorker_w1", dies=True, answers=False))
    message = r"^RolloutWorker_w1 cannot answer 'look' any more: the process has ended$"
    with pytest.raises(ComponentLostError, match=message):
        ask(command_sender)


def test_what_was_answered_before_the_death_counts():
    command_sender = make_sender(Member("Batcher_0"), Member("RolloutWorker_w1", dies=True))
    assert ask(command_sender) == {"Batcher_0": 7, "RolloutWorker_w1": 7}


def test_where_the_run_has_ended_that_is_why_nobody_answers():
    command_sender = make_sender(Member("RolloutWorker_w1", dies=True, answers=False), end_reason="Learner_0 failed")
    with pytest.raises(RunEndedError, match="any more: Learner_0 failed"):
        ask(command_sender)


def test_the_death_of_who_is_not_asked_concerns_nobody():
    asked, dead = Member("Batcher_0"), Member("RolloutWorker_w1")
    command_sender = make_sender(asked, dead)
    dead.lives = False
    assert command_sender.call("look", {"Batcher_0": ()}, LONG_S) == {"Batcher_0": 7}


@pytest.mark.parametrize("answers", [True, False], ids=["answered", "lost"])
def test_asking_is_a_wait_for_components(answers):
    timing = Timing("Runner profile")
    command_sender = make_sender(Member("RolloutWorker_w0", dies=True, answers=answers), timing=timing)
    with contextlib.suppress(CommandError):
        ask(command_sender)
    root = timing.snapshot()
    assert {key: block.statistics.count for key, block in root.children.items()} == {"wait_components": 1}


def test_whoever_takes_a_place_has_the_settings_of_the_one_before():
    lost, other, successor = Member("RolloutWorker_w1"), Member("RolloutWorker_w0"), Member("RolloutWorker_w1")
    command_sender = make_sender(lost, other, successor)
    command_sender.members = [lost, other]
    for value in (True, False):
        command_sender.call("set_profiling_enabled", {"RolloutWorker_w1": (value,)}, LONG_S)
    command_sender.call("set_post_collect_hook", {"RolloutWorker_w0": (print,)}, LONG_S)
    command_sender.call("look", dict.fromkeys(command_sender.names(), ()), LONG_S)
    command_sender.replace(successor)
    assert successor.asked == [("set_profiling_enabled", (False,))]


def test_what_was_asked_last_counts_also_where_it_was_asked_while_answers_were_waited_for():
    member, successor = Member("RolloutWorker_w1"), Member("RolloutWorker_w1")

    def take_reports():
        if len(member.asked) == 1:
            command_sender.call("set_profiling_enabled", {member.name: (False,)}, LONG_S)
        while member.reports:
            command_sender.take(member.reports.pop())

    command_sender = CommandSender([member], take_reports, lambda: "", Timing("Runner profile"))
    command_sender.call("set_profiling_enabled", {member.name: (True,)}, LONG_S)
    assert [arguments for _, arguments in member.asked] == [(True,), (False,)]
    command_sender.replace(successor)
    assert successor.asked == [("set_profiling_enabled", (False,))]


def ask_and_replace(member, method, argument):
    """Return what a successor is asked to do after a member was asked for something, which fails."""
    command_sender, successor = make_sender(member), Member(member.name)
    with pytest.raises((CommandError, TypeError)):
        command_sender.call(method, {member.name: (argument,)}, LONG_S)
    command_sender.replace(successor)
    return successor.asked


def test_a_setting_that_the_lost_one_could_not_answer_any_more_is_its_successors():
    lost = Member("RolloutWorker_w1", dies=True, answers=False)
    assert ask_and_replace(lost, "set_profiling_enabled", False) == [("set_profiling_enabled", (False,))]


def test_a_setting_that_was_refused_is_nobodys():
    assert ask_and_replace(Member("RolloutWorker_w1", error="TypeError: x"), "set_post_collect_hook", 3) == []


def test_a_setting_that_could_not_be_sent_is_nobodys():
    class Refusing(Member):
        def send_command(self, command):
            raise TypeError("cannot pickle this")

    assert ask_and_replace(Refusing("RolloutWorker_w1"), "set_post_collect_hook", open) == []
