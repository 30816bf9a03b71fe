"""Somebody else's code closes the pipes of a process, and opens others."""

from __future__ import annotations

import os
import socket

import pytest

from sample_profiler.runtime.messages.channels import make_pipe
from sample_profiler.runtime.surroundings.own_pipes import OwnPipes


@pytest.fixture
def number():
    read, write = make_pipe()
    yield read.fileno()
    for end in (read, write):
        end.close()


def test_pipes_that_stay_are_not_replaced(number):
    pipes = OwnPipes()
    other, its_end = socket.socketpair()
    with other, its_end:
        assert not pipes.are_replaced()


@pytest.mark.parametrize("opens", [socket.socketpair, os.pipe], ids=["sockets", "pipes"])
def test_a_pipe_is_replaced_once_something_else_has_its_number(number, opens):
    pipes = OwnPipes()
    os.close(number)
    assert not pipes.are_replaced(), "whoever reads from it is told so"
    opened = opens()
    try:
        assert number in [end if isinstance(end, int) else end.fileno() for end in opened]
        assert pipes.are_replaced()
    finally:
        for end in opened:
            os.close(end) if isinstance(end, int) else end.close()
