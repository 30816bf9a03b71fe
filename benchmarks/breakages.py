"""Makes mistakes in a copy of the package, one at a time, and looks whether the tests notice each of them.

What is made is listed in benchmarks/breaking: a change of one place, as anybody could make it, and the tests that have
to fail of it. A test that fails because something cannot be imported, or has no such name, has noticed nothing. Before
anything is broken, the same tests have to pass.

Each breakage adds a line to the results as soon as its outcome is known. Those that are there as they are listed now
are not made again, so the same command goes on where it was ended; --again makes them anew, as after a change of tests.
Exit status 0: the tests notice all that were chosen; 1: one was not noticed; 2: there is no such breakage, or tests
fail by themselves.

    python -m benchmarks.breakages --list
    python -m benchmarks.breakages --only vtrace checkpoint --again
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.breaking.breakage import Breakage
from benchmarks.breaking.learning import LEARNING
from benchmarks.breaking.profiling import PROFILING
from benchmarks.breaking.running import RUNNING
from benchmarks.measuring.frameworks.peer_runs import RESULTS
from harness.kept_lines import ROOT, append_line, ask_git, describe_origin, end_when_told, read_lines, tell_origins

BREAKAGES: tuple[Breakage, ...] = (*LEARNING, *RUNNING, *PROFILING)
_LONGEST_S = 900.0  # of the tests of one breakage, some of which may hang of it
_DYING_S = 5.0
_FAILED = 1  # pytest's exit status
_FAILURE = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)
_ERROR = re.compile(r"^\S+:\d+: (\w+)$", re.MULTILINE)  # below each traceback, where the line is and what it raised
_NO_PROGRAM = {"ImportError", "ModuleNotFoundError", "NameError", "SyntaxError"}
_MOST_OUTPUT = 2000


@dataclass(frozen=True)
class Outcome:
    """What came of a breakage.

    Attributes:
        caught_by: the test that failed first; empty: none did.
        problem: why it counts as not noticed; empty: it was.
        seconds: that the tests took.
    """

    caught_by: str
    problem: str
    seconds: float


class BrokenTestsError(Exception):
    """Tests fail although nothing is broken."""


@contextlib.contextmanager
def copied_repository() -> Iterator[Path]:
    """Give a folder with all files of this repository as they are now, and its compiled modules; it is removed then."""
    with tempfile.TemporaryDirectory(prefix="breakages_", ignore_cleanup_errors=True) as folder:
        names = [*ask_git(ROOT, "ls-files").splitlines(), *_compiled_modules()]
        for name in filter(lambda name: (ROOT / name).is_file(), names):
            target = Path(folder) / "copy" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        yield Path(folder) / "copy"


def _compiled_modules() -> list[str]:
    return [str(path.relative_to(ROOT)) for path in (ROOT / "sample_profiler").rglob("*.so")]


def run_tests(
    copy: Path, tests: Sequence[str], *, limit_s: float = _LONGEST_S, keeps_bytecode: bool = False
) -> tuple[int | None, str]:
    """Run tests in a copy of the repository up to the first that fails.

    Args:
        copy: its folder.
        tests: as pytest names them.
        limit_s: that they may take.
        keeps_bytecode: whether modules are compiled for later runs, too; not those that are broken.

    Returns:
        pytest's exit status, None if they took too long, and its output.
    """
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "" if keeps_bytecode else "1"}
    temporary = copy.with_name("tests")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--basetemp={temporary}", *tests]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            _end_processes_of(copy)
    return process.returncode, output


def _end_processes_of(copy: Path) -> None:
    """End what was started with a copy of the package: what is broken may be that it ends by itself."""
    ended = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # of another user, or gone
            if process.environ().get("PYTHONPATH") == str(copy):
                process.kill()
                ended.append(process)
    psutil.wait_procs(ended, timeout=_DYING_S)


def judge(status: int | None, output: str) -> tuple[str, str]:
    """Return which test has noticed a breakage, and why none has, of pytest's exit status and output."""
    if status is None:
        return "", "the tests did not end"
    if status == 0:
        return "", "all tests pass"
    failure = _FAILURE.search(output)
    if status != _FAILED or failure is None:
        return "", f"no test failed, pytest ended with status {status}: {output[-_MOST_OUTPUT:]}"
    errors = _ERROR.findall(output)
    if errors and errors[-1] in _NO_PROGRAM:
        return "", f"{failure[1]} failed of nothing but {errors[-1]}"
    return failure[1], ""


def break_once(copy: Path, breakage: Breakage) -> Outcome:
    """Make a breakage in a copy of the repository, run its tests, and undo it."""
    begin_s = time.monotonic()
    with breakage.made(copy):
        caught_by, problem = judge(*run_tests(copy, breakage.tests))
    return Outcome(caught_by, problem, round(time.monotonic() - begin_s, 1))


def check_tests(copy: Path, tests: Sequence[str]) -> None:
    """Run tests while nothing is broken.

    Raises:
        BrokenTestsError: one fails.
    """
    status, output = run_tests(copy, tests, keeps_bytecode=True)
    if status != 0:
        raise BrokenTestsError(f"tests fail although nothing is broken:\n{output[-_MOST_OUTPUT:]}")


def choose(words: Sequence[str]) -> list[Breakage]:
    """Return the breakages that have one of some words in their names or paths; without words all."""
    wanted = [word.lower() for word in words]
    return [each for each in BREAKAGES if not words or any(w in f"{each.name} {each.path}".lower() for w in wanted)]


def describe(breakage: Breakage) -> dict[str, Any]:
    """Return a breakage as it stands in a line."""
    return asdict(breakage) | {"tests": list(breakage.tests)}


def find_kept(breakages: Sequence[Breakage], lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the latest line of each breakage that was made as it is listed now, by name."""
    wanted = {each.name: describe(each) for each in breakages}
    return {
        line["name"]: line
        for line in lines
        if (told := wanted.get(line["name"])) is not None and told == {key: line.get(key) for key in told}
    }


def summarize(breakages: Sequence[Breakage], kept: dict[str, dict[str, Any]]) -> tuple[str, int]:
    """Return what came of breakages as a table, and the exit status."""
    rows = []
    for each in breakages:
        line = kept[each.name]
        rows.append(f"{'noticed' if line['caught_by'] else 'MISSED ':7}  {line['seconds']:6.1f} s  {each.name}")
        rows.append(f"{'':19}{line['caught_by'] or line['problem']}")
    missed = [each.name for each in breakages if not kept[each.name]["caught_by"]]
    rows.append(f"{len(breakages) - len(missed)} of {len(breakages)} breakages were noticed by the tests")
    rows.append(tell_origins(kept.values()))
    return "\n".join(rows), 1 if missed else 0


def make_missing(breakages: Sequence[Breakage], output: Path) -> None:
    """Make breakages, and add a line for each.

    Raises:
        BrokenTestsError: their tests fail by themselves.
    """
    origin = describe_origin()
    with copied_repository() as copy:
        checked: set[tuple[str, ...]] = set()
        for number, each in enumerate(breakages, start=1):
            if each.tests not in checked:
                check_tests(copy, each.tests)
                checked.add(each.tests)
            outcome = break_once(copy, each)
            append_line(output, describe(each) | asdict(outcome) | origin)
            print(f"{number}/{len(breakages)} {each.name}: {outcome.caught_by or outcome.problem}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the breakages that are not there yet, and say what came of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="in names or paths; default: all")
    parser.add_argument("--list", action="store_true", help="tell the names of those, and break nothing")
    parser.add_argument("--again", action="store_true", help="make also those whose outcome is kept")
    parser.add_argument("--output", type=Path, default=RESULTS / "breakages.jsonl", help="file of the outcomes")
    options = parser.parse_args(argv)
    chosen = choose(options.only)
    if not chosen:
        print(f"no breakage has any of {', '.join(options.only)} in its name or path")
        return 2
    if options.list:
        print("\n".join(f"{each.name}  ({each.path})" for each in chosen))
        return 0
    kept = {} if options.again else find_kept(chosen, read_lines(options.output))
    try:
        if missing := [each for each in chosen if each.name not in kept]:
            make_missing(missing, options.output)
    except BrokenTestsError as error:
        print(error)
        return 2
    text, status = summarize(chosen, find_kept(chosen, read_lines(options.output)))
    print(text)
    return status


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
