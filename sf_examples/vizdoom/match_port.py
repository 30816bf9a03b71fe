"""Ports of the games of a match, of which no two may be the same on a machine."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Sequence

from sample_profiler.errors import EnvError

__all__ = ["reserve_port"]

_PORTS = range(20_000, 32_000)  # below those that the system gives to programs that ask for any


def reserve_port(ports: Sequence[int] = _PORTS) -> socket.socket:
    """Return a socket whose port is free for the host of a match; while it is open, no other match gets that port.

    The games talk over UDP, and a host that finds its port taken crashes ViZDoom. So the port is held under TCP, which
    does not hinder them.

    Raises:
        EnvError: All ports are taken.
    """
    for port in random.SystemRandom().sample(ports, len(ports)):
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("", port))
            held.bind(("127.0.0.1", port))
            return held
        held.close()
    raise EnvError(f"no port from {ports[0]} to {ports[-1]} is free for a match: end what uses them")
