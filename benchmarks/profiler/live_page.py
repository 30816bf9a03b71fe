"""Print what the live page costs a run that many look at: its throughput with 50 tabs open, and without.

The run goes on in a folder with 200 others, which have ended. Half of the tabs show the list, half of them the run; a
process of its own has them, as a browser elsewhere would, and opens and closes all of them every few seconds (open,
closed, closed, open, …). Ratio, estimate and interval are those of `recorder_overhead`. What does not depend on how
fast the machine is just now: the processor time of the server while they are open, as a share of the run's.

    python -m benchmarks.profiler.live_page --seconds 150
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.measuring.alone.page_tabs import open_tab
from benchmarks.measuring.machine.processor_time import processor_time_s
from benchmarks.measuring.runs.live_runs import NAMES, LiveRun, make_run
from benchmarks.measuring.turns.alternation import HEADER, Alternation, compare, pairs_of
from sample_profiler.run_folder import RunFolder

MOST_SHARE = 0.01
MOST_MIB = 300
_EARLIER_S = 15.0  # of the run that the others are copies of
_WARM_UP_S = 5.0
_PIPE = -1


@dataclass
class Page:
    """The server of the live page, and the tabs that look at it.

    Attributes:
        server: its process.
        tabs: theirs.
        cpu_s: of the server while there were tabs, so far.
        began_s: what the server had used when they were opened; None: they are closed.
    """

    server: psutil.Popen
    tabs: psutil.Popen
    cpu_s: float = 0.0
    began_s: float | None = None

    def switch(self, is_on: bool) -> None:
        """Open all tabs anew, or close them."""
        used_s = processor_time_s(self.server.pid)
        if self.began_s is not None:
            self.cpu_s += used_s - self.began_s
        self.began_s = used_s if is_on else None
        self.tabs.stdin.write("on\n" if is_on else "off\n")
        self.tabs.stdin.flush()

    def memory_mib(self) -> float:
        """Return the most memory that the server has had so far."""
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        (kib,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kib) / 1024


@contextlib.contextmanager
def looked_at(folder: Path, run: str, num_tabs: int, num_runs: int) -> Iterator[Page]:
    """Serve a folder, and yield the page once the server has read all runs that there are."""
    token = secrets.token_hex(16)
    words = [sys.executable, "-m", "sample_profiler", "serve", str(folder)]
    with contextlib.ExitStack() as ended:
        server = psutil.Popen(words, stdout=_PIPE, text=True, env={**os.environ, "SAMPLE_PROFILER_TOKEN": token})
        ended.callback(_end, server)
        port = int(re.findall(r":(\d+)/", server.stdout.readline())[0])
        with open_tab(port, token, "/events") as tab, tab.makefile("rb") as lines:
            next(line for line in lines if line.count(b"run?name=") >= num_runs)
        paths = ["/events" if number % 2 else f"/events?name={run}" for number in range(num_tabs)]
        words = [sys.executable, "-m", "benchmarks.measuring.alone.page_tabs", str(port), token, *paths]
        tabs = psutil.Popen(words, stdin=_PIPE, text=True)
        ended.callback(_end, tabs)
        yield Page(server, tabs)


def _end(process: psutil.Popen) -> None:
    process.kill()
    process.communicate()


def copy_runs(name: str, folder: Path, num_runs: int) -> None:
    """Make a short run, and copies of what it leaves."""
    earlier = make_run(name, _EARLIER_S)
    earlier.execute([])
    for path in RunFolder(earlier.folder).path.glob("checkpoint_p*"):
        shutil.rmtree(path)
    for number in range(num_runs):
        shutil.copytree(earlier.folder, folder / f"ended_{number}")


def measure(run: LiveRun, page: Page, phase_s: float) -> bool:
    """Make the run, looked at and not looked at in turn; print figures, and tell whether the server takes little."""
    run.foreign_pids.update((page.server.pid, page.tabs.pid))
    alternation = Alternation(run, page.switch, phase_s, _WARM_UP_S)
    mib: list[float] = []
    alternation.at_end = lambda: mib.append(page.memory_mib())
    run.execute([alternation])
    comparisons = compare(pairs_of(run.samples, alternation.phases))
    print(f"{run.folder.name}, parallel, {len(comparisons[0].on)} pairs of phases with and without tabs\n{HEADER}")
    for comparison in comparisons:
        print(comparison.describe())
    share = page.cpu_s / sum(phase.cpu_s for phase in alternation.phases if phase.is_on)
    print(f"the server's processor time while there are tabs: {share:.2%} of the run's; its memory: {mib[0]:.0f} MiB")
    return share < MOST_SHARE and mib[0] < MOST_MIB


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=NAMES, default=NAMES[0], help="environment of the run")
    parser.add_argument("--seconds", type=float, default=150.0, help="how long it trains")
    parser.add_argument("--phase_seconds", type=float, default=6.0, help="how long tabs stay open, or closed")
    parser.add_argument("--tabs", type=int, default=50, help="how many look at once")
    parser.add_argument("--runs", type=int, default=200, help="how many others are in the folder")
    options = parser.parse_args(argv)
    run = make_run(options.env, options.seconds)
    copy_runs(options.env, run.folder.parent, options.runs)
    with looked_at(run.folder.parent, run.folder.name, options.tabs, options.runs) as page:
        is_within = measure(run, page, options.phase_seconds)
    print(f"{'within' if is_within else 'NOT within'} {MOST_SHARE:.0%} and {MOST_MIB} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
