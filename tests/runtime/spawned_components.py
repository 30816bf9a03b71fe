"""What the spawned processes of these tests run; imported by name there, so it has to be a module of its own.

Needs neither pytest nor torch: a process is ready sooner.
"""

from __future__ import annotations

import faulthandler
import logging
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from sample_profiler.profiling import Timing, get_timing
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.messages.channels import Channel, PipeReports
from sample_profiler.runtime.messages.shared_memory import SharedArrays, SharedBlock
from sample_profiler.runtime.processes.child import report_shared_memory

if TYPE_CHECKING:
    from sample_profiler.runtime.messages.fifo_channels import FifoChannel

SLEEP = (sys.executable, "-c", "import time; time.sleep(300)")


class EndsWhoeverReads:
    """Ends the process that it is unpickled in."""

    STATUS = 7

    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return os._exit, (self.STATUS,)


class Spawned:
    """A component that does what it is told in one of its methods, and nothing in the others."""

    def __init__(
        self,
        reports: PipeReports,
        start: Callable[[PipeReports], None] | None = None,
        handle: Callable[[PipeReports], None] | None = None,
        finish: Callable[[PipeReports], None] | None = None,
        channel: Channel | None = None,
    ) -> None:
        self.name = "Spawned"
        self.timing = Timing("Spawned profile")
        self._reports = reports
        self._start, self._handle, self._finish = start, handle, finish
        self._channel = channel

    def inputs(self) -> list[Input]:
        return [Input(self._channel, self._on_values)] if self._channel else []

    def timers(self) -> list[Timer]:
        return []

    def gauges(self) -> dict[str, float]:
        return {"always": 1.5}

    def commands(self) -> dict[str, Callable[..., Any]]:
        return {"apply": lambda function, value: function(value)}

    def start(self) -> None:
        if self._start:
            with get_timing().add_time("start"):  # nests in this component's own tree
                self._start(self._reports)

    def wait_block(self) -> str:
        return "wait_test"

    def finish(self) -> None:
        self._reports.send("finish was called")
        if self._finish:
            self._finish(self._reports)

    def _on_values(self, values: list[int]) -> None:
        self._reports.send(values)
        if self._handle:
            self._handle(self._reports)


# What a component can do -----------------------------------------------------------------------------------------


def raise_error(_: PipeReports) -> None:
    try:
        raise KeyError("the cause")
    except KeyError as error:
        raise ValueError("broken on purpose") from error


def hold(reports: PipeReports, channel: FifoChannel) -> None:
    """Take the mutex of a queue, and keep it."""
    channel.event_loop.signal_queue._lock()
    reports.send("holds it")
    time.sleep(300)


def tell_which_queues_others_would_inherit(reports: PipeReports) -> None:
    descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    queues = [int(path.name) for path in descriptors if str(path.readlink()).startswith("/dev/shm/")]
    reports.send([os.get_inheritable(descriptor) for descriptor in queues])


def raise_after_a_signal(reports: PipeReports) -> None:
    """Raise as an environment does whose simulator has got the same signal."""
    os.kill(os.getpid(), signal.SIGTERM)
    raise_error(reports)


def raise_before_a_signal(reports: PipeReports) -> None:
    """Raise as an environment does whose simulator has got the same signal a moment before."""
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
    raise_error(reports)


def grow(num_bytes: int, reports: PipeReports) -> None:
    """Have a lot of memory for a moment."""
    reports.send(len(bytearray(b"x") * num_bytes))


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def raise_unprintable(_: PipeReports) -> None:
    raise UnprintableError


def lose_its_output(reports: PipeReports) -> None:
    sys.stdout = None  # as where the program was started with >&-


def print_to_nobody(reports: PipeReports) -> None:
    """Print where nobody reads any more, as below a `head` that has ended."""
    reading, writing = os.pipe()
    for descriptor in (1, 2):
        os.dup2(writing, descriptor)
    os.close(reading)
    os.close(writing)
    for stream in (sys.stdout, sys.stderr):
        stream.write("hello\n")
        stream.flush()
    sys.stdout.write("waits in the buffer")
    subprocess.run(["echo", "hello"], check=True)
    reports.send("printed")


def leave_with_success(_: PipeReports) -> None:
    sys.exit(0)


def hang(reports: PipeReports) -> None:
    reports.send("deaf from here on")
    while True:
        time.sleep(1)


def hang_with_own_handlers(reports: PipeReports) -> None:
    """As an environment that has its stacks written down by the signal that everybody uses for that."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: reports.send(f"signal {number}"))
    with open("/dev/null", "w") as file:
        faulthandler.register(signal.SIGUSR2, file=file, chain=True)
        hang(reports)


def hang_without_handlers(reports: PipeReports) -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number < signal.SIGRTMIN:
            signal.signal(number, signal.SIG_DFL)
        else:
            faulthandler.unregister(number)
    hang(reports)


def stop_itself(reports: PipeReports) -> None:
    reports.send("deaf from here on")
    os.kill(os.getpid(), signal.SIGSTOP)


def warn(_: PipeReports) -> None:
    logging.getLogger("sample_profiler.test").warning("careful with %s", ["lists", 1])


def read_autogroup() -> str | None:
    path = Path("/proc/self/autogroup")
    return path.read_text() if path.exists() else None


def describe_process(reports: PipeReports) -> None:
    reports.send(
        {
            "session": os.getsid(0) == os.getpid(),
            "goes_on_at_sigint": signal.raise_signal(signal.SIGINT) is None,
            "niceness": os.nice(0),
            "autogroup": read_autogroup(),
            "cpus": os.sched_getaffinity(0),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "inheritable": [fd for fd in list_descriptors() if os.get_inheritable(fd)],
        }
    )


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def list_descriptors() -> list[int]:
    """Return the open descriptors but the three standard ones."""
    numbers = (int(name) for name in os.listdir("/proc/self/fd"))
    return [number for number in numbers if number > 2 and Path(f"/proc/self/fd/{number}").exists()]


def describe_fork(reports: PipeReports) -> None:
    """Report whether SIGTERM ends a forked copy of this process."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL).encode())
        os._exit(0)
    reports.send(f"SIGTERM ends it: {os.read(read, 10).decode()}")
    os.wait()


def start_games(reports: PipeReports) -> None:
    """Start a game, and one that a script leaves behind in a session of its own."""
    game = subprocess.Popen(SLEEP)
    script = f"import subprocess; print(subprocess.Popen({SLEEP!r}, start_new_session=True).pid, flush=True)"
    abandoned = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert abandoned.stdout is not None
    number = int(abandoned.stdout.readline())
    abandoned.wait()  # a look at the processes while this one ends would miss the one that it has started
    reports.send(["games", game.pid, number])


def start_game_that_maps(path: str, reports: PipeReports) -> None:
    """Start a game that makes shared memory which its worker does not map."""
    script = f"import mmap, time; f = open({path!r}, 'w+b'); f.truncate(9); m = mmap.mmap(f.fileno(), 9)"
    script += "; print(flush=True); time.sleep(300)"
    game = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert game.stdout is not None
    game.stdout.readline()
    reports.send(["games", game.pid])


def start_games_and_hang(reports: PipeReports) -> None:
    start_games(reports)
    hang(reports)


def tell_of(names: Sequence[str]) -> Callable[[PipeReports], None]:
    """Tell of shared memory as code does that nobody has handed anything."""
    return partial(_tell_of, names)


def _tell_of(names: Sequence[str], _: PipeReports) -> None:
    report_shared_memory(names)


class UnreadableError(Exception):
    """Can be pickled, as every exception, but not unpickled: it passes on another number of arguments."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first + second)


def warn_with_an_unreadable_extra(_: PipeReports) -> None:
    logging.getLogger("sample_profiler.test").warning("careful", extra={"cause": UnreadableError(1, 2), "env_id": 3})


def send_many_reports(reports: PipeReports) -> None:
    for number in range(1000):
        reports.send([number] * 10)


def leave_a_mark(path: Path, _: PipeReports) -> None:
    path.touch()


def send_a_large_report(reports: PipeReports) -> None:
    reports.send(bytes(5 << 20))
    reports.send("after the large one")


def die_in_the_middle_of_a_report(reports: PipeReports) -> None:
    reports.send("whole")
    os.write(reports._write.fileno(), (1000).to_bytes(8, "little") + b"the first half")
    os.kill(os.getpid(), signal.SIGKILL)


# Makers, to be completed with functools.partial ------------------------------------------------------------------


def make_spawned(reports: PipeReports, **actions: Any) -> Spawned:
    return Spawned(reports, **actions)


def make_broken(_: PipeReports) -> Spawned:
    raise_error(_)
    raise AssertionError


class MapsFiles(Spawned):
    """Maps named files under /dev/shm as games do: made by itself, or there before; then does something else."""

    def __init__(self, reports: PipeReports, new: Sequence[str], old: Sequence[str], **actions: Any) -> None:
        super().__init__(reports, **actions)
        self.memory = [map_file(path, "w+b") for path in new] + [map_file(path, "r+b") for path in old]
        for memory in self.memory:
            memory[0] = 1  # a write changes the times of the file
        reports.send("mapped")


def map_file(path: str, mode: str) -> mmap.mmap:
    with open(path, mode) as file:
        if mode == "w+b":
            file.truncate(4096)
        return mmap.mmap(file.fileno(), 4096)


def make_maps_files(reports: PipeReports, new: Sequence[str], old: Sequence[str] = (), **actions: Any) -> MapsFiles:
    return MapsFiles(reports, new, old, **actions)


class Writer(Spawned):
    """Sends records `(writer, number, ...)` of many lengths, as fast as it can."""

    def __init__(self, reports: PipeReports, channel: Channel, writer: int, num_records: int) -> None:
        super().__init__(reports)
        self._target = channel
        self._records = list(make_records(writer, num_records))

    def start(self) -> None:
        for record in self._records:
            self._target.send(record)


def make_records(writer: int, num_records: int) -> Iterable[list[int]]:
    """Yield records: a mark, the writer, a number, the length of what follows, and that many times the writer."""
    for number in range(num_records):
        length = (number * 37) % 1020
        yield [-1, writer, number, length, *([writer] * length)]


def make_writer(reports: PipeReports, channel: Channel, writer: int, num_records: int) -> Writer:
    return Writer(reports, channel, writer, num_records)


class Squarer(Spawned):
    """Writes squares into shared memory: value i of "numbers" to value i of "squares"."""

    def __init__(self, reports: PipeReports, arrays: SharedArrays, block: SharedBlock) -> None:
        super().__init__(reports)
        self._arrays, self._block = arrays, block

    def start(self) -> None:
        self._arrays["squares"][:] = self._arrays["numbers"].astype("int64") ** 2
        self._block.resize(8192)
        self._block.memory[8191] = 42
        self._reports.send("written")


def make_squarer(reports: PipeReports, arrays: SharedArrays, block: SharedBlock) -> Squarer:
    return Squarer(reports, arrays, block)
