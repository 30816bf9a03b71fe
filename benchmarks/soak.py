"""Train for a long while and print whether the run stays as it was: its memory, its throughput, its files.

A soak is the ordinary training script in a process of its own. It goes on from the checkpoint of a run of some minutes:
a policy that still learns makes episodes longer or shorter, and with them the frames a second, whatever the run does.
Every few seconds its frames are read from its record files and the memory of all its processes is added up
(proportional share: what they share counts once). Memory may grow while everything is used for the first time; after
that its slope is that of the least squares, without what the record files take: each has a fixed size, and fills as
fast as its process has something to say, that of the Batcher of CartPole for a quarter of an hour. Throughput is
compared between the first and the last sixth of the time, and so is how long a fixed piece of work takes beside it:
where that takes longer at last, it is the machine that became slower. In the end the run and a new one that goes on
from its checkpoint take turns for some minutes: where both are equally fast, the run has not become slower, whatever
the machine did. Both are told and excuse nothing. The exit status is 1 if memory grows by more than 1 MB a minute, if
throughput changes by more than 5 %, or if the run does not end well.

Tasks are trained one after the other, also if the first one fails. Each look adds a line to soak-TASK.jsonl as soon as
it is taken, and the end another one with the exit status of the run and all problems. A soak that is there is not made
again; one that was interrupted is, since memory and speed of two halves say nothing of an hour.

    python -m benchmarks.soak --minutes 60
    python -m benchmarks.soak --tasks doom_basic --minutes 60
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measuring.frameworks.peer_runs import RESULTS, measure_memory
from benchmarks.measuring.machine.machine_speed import FixedWork
from benchmarks.measuring.statistic import ratio_interval
from benchmarks.measuring.turns.old_and_new import NUM_PAIRS, Turns, copy_checkpoints, read_frames, take_turns, turns_s
from harness.kept_lines import append_line, describe_origin, end_when_told, read_lines
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.machine.machine import Machine

TASKS = {
    "cartpole": ("sf_examples.gym.train_gym", "--env=CartPole-v1"),
    "doom_basic": (
        *("sf_examples.vizdoom.train_vizdoom", "--env=doom_basic", "--num_workers=2", "--num_envs_per_worker=16"),
        *("--batch_size=2048", "--rollout=32"),
    ),
}
_INTERVAL_S = 10.0
_SETTLED_S = 300.0
_MOST_SETTLING = 0.5  # of the time
_PART = 1 / 6
_SPARE_S = 120.0  # for starting, and for ending
_MOST_OUTPUT = 3000
_SHORT = 0.9  # of the time that was asked for
_MOST_MB_PER_MINUTE = 1.0
_MOST_CHANGE = 0.05  # of throughput


@dataclass(frozen=True)
class Moment:
    """A look at a run.

    Attributes:
        time_s: seconds since its start.
        frames: trained on.
        memory_mib: of all its processes.
        folder_mib: of its files.
        work_ms: processor time of a fixed piece of work beside it.
        records_mib: of that memory what the record files take.
    """

    time_s: float
    frames: float
    memory_mib: float
    folder_mib: float
    work_ms: float
    records_mib: float = 0.0

    @property
    def own_mib(self) -> float:
        """Of its processes without their record files."""
        return self.memory_mib - self.records_mib


@dataclass(frozen=True)
class Soak:
    """A soak that is over.

    Attributes:
        moments: what was seen.
        status: of its process; None: it did not end by itself.
        output: the end of what it said, if it has not ended well.
        turns: what it and a new run in its place have done in turns; empty: that was not to be seen.
    """

    moments: Sequence[Moment]
    status: int | None
    output: str = ""
    turns: Turns = field(default_factory=Turns)


def learn(command: Sequence[str], folder: Path, seconds: float) -> Soak:
    """Train for some time what the soak goes on with, and look at nothing."""
    log = folder / "learned.txt"
    with log.open("w") as output:
        flags = (f"--train_dir={folder}", "--experiment=run", f"--train_for_seconds={seconds:g}")
        try:
            status: int | None = subprocess.run(
                [*command, *flags], stdout=output, stderr=subprocess.STDOUT, timeout=seconds + 2 * _SPARE_S
            ).returncode
        except subprocess.TimeoutExpired:
            status = None
    return Soak([], status, "" if status == 0 else _end_of(log))


def watch(
    command: Sequence[str],
    folder: Path,
    seconds: float,
    keep: Callable[[Moment], None],
    num_pairs: int = NUM_PAIRS,
) -> Soak:
    """Run a command and look at it from time to time; in the end let it and a new run take turns.

    Args:
        command: that trains for as long as its flags say; its folder is added.
        folder: for its files.
        seconds: for which it is looked at; it may train for `turns_s` more.
        keep: is given each look as soon as it is taken.
        num_pairs: of turns in the end; 0: none.
    """
    moments: list[Moment] = []
    turns: Turns | None = None
    log, work = folder / "output.txt", FixedWork()
    with log.open("w") as output:
        flags = (f"--train_dir={folder}", "--experiment=run")
        process = psutil.Popen([*command, *flags], stdout=output, stderr=subprocess.STDOUT)
        begin_s = time.monotonic()
        most_s = seconds + 2 * turns_s(num_pairs) + 2 * _SPARE_S
        try:
            # While it is another one's turn it stands still, which does not count as training.
            while process.poll() is None and time.monotonic() - begin_s < most_s:
                time.sleep(_INTERVAL_S)
                time_s = time.monotonic() - begin_s
                if process.poll() is not None:
                    continue
                if time_s > seconds:  # what is about to end has let go of memory already
                    if num_pairs:
                        turns = turns or _take_turns(process, command, folder, num_pairs)
                    continue
                for moment in look(process, folder / "run", log, time_s, work):
                    moments.append(moment)
                    keep(moment)
            status = process.poll()
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
                process.kill()  # the others notice, and end
            process.wait()
    return Soak(moments, status, "" if status == 0 else _end_of(log), turns or Turns())


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-_MOST_OUTPUT:]


def _take_turns(process: psutil.Process, command: Sequence[str], folder: Path, num_pairs: int) -> Turns:
    try:
        return take_turns(process, folder / "run", command, folder / "new", num_pairs)
    except RuntimeError as error:
        print(f"Nothing is known of a new run in the place of this one: {error}", file=sys.stderr)
        return Turns()


def look(process: psutil.Process, run_folder: Path, log: Path, time_s: float, work: FixedWork) -> list[Moment]:
    """Return how a run and its machine are now; nothing if that cannot be seen, as while it starts and ends."""
    frames = read_frames(run_folder)
    memory = measure_memory(process, log)
    files_mib = sum(path.stat().st_size for path in run_folder.rglob("*") if path.is_file()) / 2**20
    if not (frames and memory):
        return []
    records_mib = measure_mapped(process, run_folder)
    return [Moment(time_s, frames, memory[0].total, files_mib, 1000 * work.measure(), records_mib)]


def measure_mapped(process: psutil.Process, folder: Path) -> float:
    """Return the MiB of memory in which a process and its descendants have files of a folder."""
    num_bytes = 0
    for member in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has just ended
            num_bytes += sum(file.pss for file in member.memory_maps() if Path(file.path).is_relative_to(folder))
    return num_bytes / 2**20


def slope_per_minute(moments: Sequence[Moment]) -> float:
    """Return the growth of memory in MiB a minute, by least squares."""
    return statistics.linear_regression([m.time_s / 60 for m in moments], [m.own_mib for m in moments]).slope


def throughput(moments: Sequence[Moment]) -> float:
    """Return the frames a second between the first and the last of these."""
    return (moments[-1].frames - moments[0].frames) / (moments[-1].time_s - moments[0].time_s)


def evaluate(moments: Sequence[Moment]) -> dict[str, float]:
    """Return what a soak shows.

    Raises:
        ValueError: it was too short.
    """
    if len(moments) < 2:
        raise ValueError("too short to say anything: give more --minutes")
    begin_s, end_s = moments[0].time_s, moments[-1].time_s
    length_s = end_s - begin_s
    settled = [m for m in moments if m.time_s >= begin_s + min(_SETTLED_S, _MOST_SETTLING * length_s)]
    first = [m for m in moments if m.time_s <= begin_s + _PART * length_s]
    last = [m for m in moments if m.time_s >= end_s - _PART * length_s]
    if min(map(len, (settled, first, last))) < 2:
        raise ValueError("too short to say anything: give more --minutes")
    return {
        "minutes": length_s / 60,
        "memory_mib": settled[0].memory_mib,
        "memory_mib_per_minute": slope_per_minute(settled),
        "first_fps": throughput(first),
        "last_fps": throughput(last),
        "last_to_first": throughput(last) / throughput(first),
        "work_last_to_first": statistics.fmean(m.work_ms for m in last) / statistics.fmean(m.work_ms for m in first),
        "files_mib": moments[-1].folder_mib,
    }


def find_problems(figures: Mapping[str, float]) -> list[str]:
    """Return what did not stay as it was, in words.

    Args:
        figures: from `evaluate`.
    """
    problems = []
    growth_mb = figures["memory_mib_per_minute"] * 2**20 / 1e6
    if growth_mb > _MOST_MB_PER_MINUTE:
        problems.append(f"memory grows by {growth_mb:.2f} MB a minute, more than {_MOST_MB_PER_MINUTE:g}")
    if abs(figures["last_to_first"] - 1) > _MOST_CHANGE:
        problems.append(
            f"throughput at last is {figures['last_to_first']:.3f} of that at first, more than {_MOST_CHANGE:.0%} off"
        )
    return problems


def judge(soak: Soak, minutes: float) -> dict[str, Any]:
    """Return the last line of a soak: its figures, the exit status of its run, and all problems.

    Args:
        soak: that is over.
        minutes: that were asked for.
    """
    problems = []
    if soak.status is None:
        problems.append(f"it did not end within {2 * _SPARE_S:g} s more than it was to train and to stand still")
    elif soak.status:
        problems.append(f"it ended with status {soak.status}")
    try:
        figures = evaluate(soak.moments)
        problems += find_problems(figures)
        if figures["minutes"] < _SHORT * minutes - _INTERVAL_S / 60:
            problems.append(f"it was watched for {figures['minutes']:.1f} of {minutes:g} minutes")
    except ValueError as error:
        figures = {}
        problems.append(str(error))
    if soak.turns.new:
        ratio = ratio_interval(soak.turns.old, soak.turns.new)
        figures |= {"old_to_new": ratio.estimate, "old_to_new_lower": ratio.lower, "old_to_new_upper": ratio.upper}
    facts = {"figures": figures, "turns": asdict(soak.turns), "output": soak.output}
    return {"what": "end", "status": soak.status, "problems": problems, **facts}


def make_soak(
    task: str, minutes: float, learned: float | Path, num_pairs: int, path: Path, flags: Sequence[str] = ()
) -> None:
    """Make one soak, and keep every look and the end.

    Args:
        task: one of `TASKS`.
        minutes: for which it is looked at.
        learned: minutes that it learns before, or the folder of a run that has, from whose checkpoints it goes on.
        num_pairs: of turns in the end; 0: none.
        path: of the file that keeps it.
        flags: further ones of the run.
    """
    origin = describe_origin()
    asked = {"task": task, "minutes": minutes, "learned": _describe_learned(learned)}
    append_line(path, {"what": "begin", **asked, "facts": Machine.this().to_dict(), **origin})

    def keep(moment: Moment) -> None:
        append_line(path, {"what": "look", **{name: round(value, 2) for name, value in asdict(moment).items()}})

    with tempfile.TemporaryDirectory(prefix="sample_profiler_soak_", ignore_cleanup_errors=True) as name:
        seconds, folder = minutes * 60, Path(name)
        command = [sys.executable, "-m", *TASKS[task], *flags]
        soak = Soak([], 0)
        if isinstance(learned, Path):
            copy_checkpoints(learned, folder / "run")
        elif learned:
            soak = learn(command, folder, learned * 60)
        if soak.status == 0:
            command.append(f"--train_for_seconds={seconds + turns_s(num_pairs):g}")
            soak = watch(command, folder, seconds, keep, num_pairs)
    append_line(path, judge(soak, minutes) | asked | origin)


def _describe_learned(learned: float | Path) -> str:
    if not isinstance(learned, Path):
        return f"{learned:g} minutes of learning"
    names = [path.stem for folder in RunFolder(learned).all_checkpoints() for path in folder.glob("checkpoint_*.pth")]
    return f"{', '.join(sorted(names))} of {learned.resolve().name}"


def _learned_of(line: Mapping[str, Any]) -> str:
    """Return how its policy had learned before a soak, as this or an earlier version has kept it."""
    learned: str = line.get("learned", _describe_learned(line.get("learned_minutes", 0)))
    return learned


def find_end(path: Path, minutes: float, learned: float | Path) -> dict[str, Any] | None:
    """Return the last line of the latest soak of that length that came to its end; None if there is none."""
    asked = (minutes, _describe_learned(learned))
    ends = [
        line for line in read_lines(path) if line["what"] == "end" and (line["minutes"], _learned_of(line)) == asked
    ]
    return ends[-1] if ends else None


def describe(end: dict[str, Any]) -> str:
    """Return what a soak came to in words."""
    text, figures = (
        f"{end['task']}, {end['minutes']:g} minutes after {_learned_of(end)}, {end['machine']}, commit {end['commit']}",
        end["figures"],
    )
    if figures:
        text += (
            f": memory {figures['memory_mib']:,.0f} MiB, {figures['memory_mib_per_minute']:+.2f} MiB a minute; "
            f"{figures['first_fps']:,.0f} frames/s at first, {figures['last_fps']:,.0f} at last: "
            f"{figures['last_to_first']:.3f}; files {figures['files_mib']:,.0f} MiB"
        )
        if "work_last_to_first" in figures:  # soaks of an earlier version have none
            text += f"; a fixed piece of work took {figures['work_last_to_first']:.2f} times as long at last"
        if "old_to_new" in figures:
            text += (
                f"; in turns with a new run: {figures['old_to_new']:.3f} of its throughput "
                f"({figures['old_to_new_lower']:.3f} to {figures['old_to_new_upper']:.3f})"
            )
    return "\n".join([text, *(f"FAILED: {problem}" for problem in end["problems"]), *filter(None, [end["output"]])])


def main(argv: Sequence[str] | None = None) -> int:
    """Make the soaks that are not there, and print all; the exit status is 1 if anything is not as it has to be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="what is trained; default: all")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long each")
    parser.add_argument(
        "--learned",
        type=float,
        default=8.0,
        help="minutes that a policy has learned before, so that its speed is level",
    )
    parser.add_argument(
        "--learned_run",
        type=Path,
        help="folder of a run of the one task that has learned: its checkpoints are gone on from",
    )
    parser.add_argument(
        "--pairs", type=int, default=NUM_PAIRS, help="turns that the run and a new one take in the end; 0: none"
    )
    parser.add_argument("--transport", choices=("pipe", "fifo"), default="pipe", help="of the runs' messages")
    parser.add_argument("--again", action="store_true", help="make soaks that had problems once more")
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help="folder of soak-TASK.jsonl, or soak-TASK-fifo.jsonl"
    )
    options = parser.parse_args(argv)
    if options.learned_run is not None and len(options.tasks) > 1:
        parser.error("--learned_run is of one task: say which with --tasks")
    learned = options.learned if options.learned_run is None else options.learned_run
    if isinstance(learned, Path) and not RunFolder(learned).all_checkpoints():
        parser.error(f"{learned} is no folder of a run: there are no checkpoints in it")
    ends = []
    for task in options.tasks:
        kind, flags = "-fifo" if options.transport == "fifo" else "", [f"--transport={options.transport}"]
        path = options.output / f"soak-{task}{kind}.jsonl"
        end = find_end(path, options.minutes, learned)
        if end is None or (options.again and end["problems"]):
            make_soak(task, options.minutes, learned, options.pairs, path, flags)
            end = find_end(path, options.minutes, learned)
        assert end is not None  # it has just been made
        ends.append(end)
        print(describe(end), flush=True)
    return int(any(end["problems"] for end in ends))


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
