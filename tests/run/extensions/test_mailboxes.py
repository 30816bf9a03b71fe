"""Whoever tells a component of something waits for nothing, and what is kept for it is bounded."""

from __future__ import annotations

import pytest

from sample_profiler.run.extensions import mailboxes
from sample_profiler.run.extensions.mailboxes import LocalMailbox, PipeMailbox


def put(mailbox, numbers):
    for number in numbers:
        mailbox.put(("signal", "slot", number))


def numbers_of(letters):
    return [payload for _, _, payload in letters]


def read_all(mail, turns=10_000):
    """Take turns as a loop does, until there is nothing more."""
    heard = []
    incoming, unheard = mail.inputs(lambda letters: heard.extend(numbers_of(letters)))
    for _ in range(turns):
        if letters := incoming.source.receive():
            incoming.handle(letters)
        if not unheard.source.has_pending():
            break
        unheard.handle(unheard.source.receive(unheard.most))
    return heard


def test_letters_come_in_order_one_a_turn_through_a_pipe():
    mailbox = PipeMailbox("Mine")
    mail = mailbox.mail()
    put(mailbox, range(3))
    assert read_all(mail, turns=1) == [0]
    put(mailbox, [3])
    assert read_all(mail) == [1, 2, 3]
    assert mail.rest() == []


def test_the_pipe_is_read_when_everything_that_was_read_before_has_been_heard():
    mailbox = PipeMailbox("Mine")
    mail = mailbox.mail()
    put(mailbox, [0, 1])
    read_all(mail, turns=1)
    put(mailbox, [2])
    assert mail.receive() == []
    assert numbers_of(mail.rest()) == [1, 2]
    put(mailbox, [3])
    assert numbers_of(mail.rest()) == [3]


def test_of_more_than_a_pipe_and_the_limit_hold_the_oldest_is_dropped_and_told(monkeypatch, caplog):
    monkeypatch.setattr(mailboxes, "_MOST_LETTERS", 5)
    mailbox = PipeMailbox("Mine")
    mail = mailbox.mail()
    large = "x" * 100_000
    for number in range(20):
        mailbox.put(("signal", "slot", (number, large)))
    heard = []
    while letters := read_all(mail):
        heard += [number for number, _ in letters]
        mailbox.deliver()
    assert heard[0] == 0 and heard[-5:] == [15, 16, 17, 18, 19]
    assert heard == sorted(set(heard))
    num_dropped = 20 - len(heard)
    assert num_dropped > 5
    assert "Mine hears signals more slowly than they come: 5 wait, and the oldest is dropped (1 so far)" in caplog.text


def test_in_one_process_others_have_as_much_time_in_between_as_the_component_takes():
    clock = [0.0]
    mailbox = LocalMailbox("Mine", lambda: clock[0])
    put(mailbox, [1, 2])

    def hear(letters):
        clock[0] += 0.5

    (mail,) = mailbox.mail().inputs(hear)
    assert mail.source.has_pending()
    mail.handle(mail.source.receive(mail.most))
    clock[0] += 0.4
    assert not mail.source.has_pending()
    clock[0] += 0.1
    assert mail.source.has_pending()
    assert numbers_of(mailbox.mail().rest()) == [2]


@pytest.mark.parametrize("make", [LocalMailbox, PipeMailbox])
def test_nothing_is_kept_for_a_component_that_is_lost(make):
    mailbox = make("Mine")
    mailbox.close()
    put(mailbox, [1])
    assert mailbox.mail().rest() == []


def test_what_a_component_has_not_heard_when_it_ends_is_said(caplog):
    mailbox = LocalMailbox("Mine_0")
    for number in range(3):
        mailbox.put(("training_step", "hear", number))
    mailbox.close()
    mailbox.close()
    assert [record.getMessage() for record in caplog.records] == ["3 signals were not told to Mine_0: it has ended"]
