"""Owns what the main thread of another process sleeps for at a moment, as the kernel tells it, without privileges.

Linux only, through /proc/PID/syscall: which call of the system a thread is blocked in, or that it is blocked in none,
as while a page comes from the disk. The kernel shows it to whoever may debug the process, so to its parent. The files
of a socket and a pipe say who is at the other end. What a thread sleeps for in all of a run, no counter tells: the
kernel adds up only how long it slept, and for disks only where delay accounting is switched on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
from typing import Literal

__all__ = ["Sleep", "find_sleep"]

Sleep = Literal["timer", "disk", "network", "process", "lock", "memory", "other", "run", "none"]
"""What a thread sleeps for: a moment; a disk; another machine; another process of this one; another thread or a lock; a
page of its own memory; something else; messages of its run, in the loop that all components have; or it does not."""

_LEAST_OF_A_LOOP = 2  # a component listens to its channels and to commands; who waits for a socket, to that alone

_TIMER, _DISK, _FILE, _NETWORK, _PROCESS, _LOCK, _POLL, _SELECT, _EVENTS = range(9)

# Of the kernel's tables, by machine: what a call waits for. _FILE is for whatever its first argument refers to.
_CALLS: dict[str, dict[int, tuple[int, ...]]] = {
    "x86_64": {
        _TIMER: (35, 230),  # nanosleep, clock_nanosleep
        # fsync, fdatasync, sync, syncfs, sync_file_range, msync, open, openat, rename, unlink, unlinkat, truncate,
        # ftruncate, fallocate, stat, newfstatat, statx, getdents64, io_getevents, io_uring_enter
        _DISK: (74, 75, 162, 306, 277, 26, 2, 257, 82, 87, 263, 76, 77, 285, 4, 262, 332, 217, 208, 426),
        # read, write, pread64, pwrite64, readv, writev, preadv, pwritev, sendfile, recvfrom, recvmsg, recvmmsg, sendto,
        # sendmsg, sendmmsg, accept, accept4
        _FILE: (0, 1, 17, 18, 19, 20, 295, 296, 40, 45, 47, 299, 44, 46, 307, 43, 288),
        _NETWORK: (42,),  # connect
        # wait4, waitid, vfork, clone, clone3, queues and semaphores of System V and POSIX
        _PROCESS: (61, 247, 58, 56, 435, 65, 220, 69, 70, 242, 243),
        _LOCK: (202, 73, 72),  # futex, flock, fcntl, which sleeps for locks of files alone
        _POLL: (7, 271),
        _SELECT: (23, 270),
        _EVENTS: (232, 281, 441),
    },
    "aarch64": {
        _TIMER: (101, 115),
        _DISK: (82, 83, 81, 267, 84, 227, 56, 38, 276, 35, 45, 46, 47, 79, 291, 61, 4, 426),
        _FILE: (63, 64, 67, 68, 65, 66, 69, 70, 71, 207, 212, 243, 206, 211, 269, 202, 242),
        _NETWORK: (203,),
        _PROCESS: (260, 95, 220, 435, 193, 192, 189, 188, 182, 183),
        _LOCK: (98, 32, 25),
        _POLL: (73,),
        _SELECT: (72,),
        _EVENTS: (22, 441),
    },
}
_WAITS_OF_CALL = {call: wait for wait, calls in _CALLS.get(platform.machine(), {}).items() for call in calls}
_DIRECT: dict[int, Sleep] = {
    _TIMER: "timer",
    _DISK: "disk",
    _NETWORK: "network",
    _PROCESS: "process",
    _LOCK: "lock",
    _EVENTS: "network",
}
_INT_BYTES = 4  # of the descriptor that a `struct pollfd` begins with
_NETWORK_TABLES = ("tcp", "tcp6", "udp", "udp6")


def find_sleep(pid: int) -> Sleep | None:
    """Return what the main thread of a process sleeps for now; None: the system does not tell, or it has ended.

    Args:
        pid: number of the process, of this user; one that another process traces is not looked into.
    """
    if not _WAITS_OF_CALL:
        return None
    try:
        with open(f"/proc/{pid}/syscall", "rb", buffering=0) as file:
            words = file.read().split()
    except OSError:
        return None
    if not words or words[0] == b"running":
        return "none" if words else None
    call = int(words[0])
    if call < 0:  # one that has ended, and that nobody has waited for yet, has no stack
        return "memory" if int(words[1], 16) else None
    return _sleep_in(pid, _WAITS_OF_CALL.get(call), [int(word, 16) for word in words[1:3]])


def _sleep_in(pid: int, wait: int | None, arguments: list[int]) -> Sleep:
    if wait is None:
        return "other"
    if wait == _FILE:
        return _sleep_for_file(pid, arguments[0])
    if wait == _SELECT:
        return "network" if arguments[0] else "timer"
    if wait == _POLL:
        address, num_files = arguments
        return "run" if num_files >= _LEAST_OF_A_LOOP else _sleep_for_polled(pid, address) if num_files else "timer"
    return _DIRECT[wait]


def _sleep_for_polled(pid: int, address: int) -> Sleep:
    """Return what the one file is that is polled, as where a socket or a pipe is waited for with a timeout."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            descriptor = int.from_bytes(os.pread(memory.fileno(), _INT_BYTES, address), sys.byteorder)
    except (OSError, OverflowError):  # it has ended, or no file may be that long
        return "network"
    return _sleep_for_file(pid, descriptor)


def _sleep_for_file(pid: int, descriptor: int) -> Sleep:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:  # closed meanwhile
        return "other"
    if target.startswith("socket:["):
        return "network" if _is_of_network(pid, target[len("socket:[") : -1]) else "process"
    if target.startswith("pipe:["):
        return "process"
    return "disk" if target.startswith("/") and not target.startswith("/dev/") else "other"


@functools.lru_cache(maxsize=256)  # the tables may have thousands of lines
def _is_of_network(pid: int, inode: str) -> bool:
    """Tell whether a socket is one of the network, and not one between processes of this machine."""
    for table in _NETWORK_TABLES:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
            if any(fields[9] == inode for line in lines if len(fields := line.split()) > 9):
                return True
    return False
