"""Makes two machines of this one, with a network of their own, and clocks that differ by what is known here.

Namespaces of Linux (network, name and time), so it takes root, and `ip`, `tc` and `unshare`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["AHEAD_S", "TwoMachines"]

AHEAD_S = 5000
"""By how much the monotonic clock of the second machine is ahead of the first one's."""

_ADDRESSES = ("10.213.0.1", "10.213.0.2")
_PORT = 29500  # nobody else is in this network
_NAMED = 'echo "$0" > /proc/sys/kernel/hostname; exec "$@"'
_BURST, _MOST_DELAY = "32kb", "2s"


class TwoMachines:
    """Two places to start processes in; a context, which takes the network down.

    Args:
        bandwidth: of the network in each direction, as `tc` wants it, such as "10mbit"; empty: as much as there is.

    Raises:
        subprocess.CalledProcessError: this cannot be made here; what is said of it is in its `stderr`.
    """

    def __init__(self, bandwidth: str = "") -> None:
        names = [f"rank{number}x{os.getpid()}" for number in range(len(_ADDRESSES))]  # of 15 characters at most
        self._names = names
        try:
            _run("ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1])
            for name, address in zip(names, _ADDRESSES, strict=True):
                _run("ip", "netns", "add", name)
                _run("ip", "link", "set", name, "netns", name)
                _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", name)
                for device in ("lo", name):
                    _run("ip", "-n", name, "link", "set", device, "up")
                if bandwidth:
                    limits = ("rate", bandwidth, "burst", _BURST, "latency", _MOST_DELAY)
                    _run("tc", "-n", name, "qdisc", "add", "dev", name, "root", "tbf", *limits)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> TwoMachines:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            # A namespace takes its devices with it; what was not made cannot be removed.
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
            subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)

    def start(
        self, number: int, words: Sequence[str], variables: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a command on one of them, as the rank of its number.

        Args:
            number: of the machine: 0 or 1.
            words: of the command.
            variables: of its environment, beside those of this process.
            log: a file for what it says.
        """
        name = self._names[number]
        place = ["ip", "netns", "exec", name]
        if number:
            place += ["unshare", "--fork", "--kill-child", "--uts", "--time", f"--monotonic={AHEAD_S}"]
            place += ["sh", "-c", _NAMED, name]
        rank = {"RANK": str(number), "WORLD_SIZE": str(len(self._names)), "GLOO_SOCKET_IFNAME": name}
        meeting = {"MASTER_ADDR": _ADDRESSES[0], "MASTER_PORT": str(_PORT)}
        with log.open("w") as output:
            return subprocess.Popen(
                [*place, *words],
                env={**os.environ, **rank, **meeting, **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
            )


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
