"""Owns `sample-profiler tune`: which settings of a training are best on this machine."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sample_profiler.analysis.steady import facts_of_run
from sample_profiler.analysis.verdict import Verdict, judge
from sample_profiler.cli.common.arguments import Commands
from sample_profiler.cli.common.problems import note
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.cli.tune.search import AS_IT_IS, Outcome, Search
from sample_profiler.cli.tune.settings import Base, Setting
from sample_profiler.cli.tune.text import describe_outcome, describe_setting, format_search
from sample_profiler.cli.tune.trials import FirstRun, Trials
from sample_profiler.errors import UsageError
from sample_profiler.files import written_whole
from sample_profiler.profiling.process.usable_cores import num_usable_cores
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.render import printable_text
from sample_profiler.run_folder import RunFolder

__all__ = ["TuneRequest", "add_parser", "run", "tune"]

_MOST_MINUTES = 24 * 60
_LEAST_MINUTES = 1.0
_HINTED = ("num_workers", "worker_num_splits", "inference", "policy_workers_per_policy", "force_envs_single_thread")
_WAITING = "waiting environments"

_EXAMPLES = """\
example:
  sample-profiler tune --minutes=20 -- python -m sf_examples.vizdoom.train_vizdoom --env=doom_benchmark

It tries how the environments are spread over workers and groups, where actions are drawn, inference workers, threads
and transport, in short runs of the command, each in a fresh process and all of them in turn, beginning with what the
verdict of the first one says. How many environments there are, batches, rollouts and precision stay as they are, since
they change what is learned, unless --may_change_learning says otherwise. The same command line goes on with a search
that was interrupted; Ctrl+C ends it with what is known by then. Nothing else should run on the machine meanwhile.
"""


@dataclass(frozen=True)
class TuneRequest:
    """What is tuned.

    Attributes:
        command: that trains.
        minutes: that the search may take.
        output: folder for its runs, what is known, and the page.
        may_change_learning: whether settings are tried, too, that change what is learned.
    """

    command: Sequence[str]
    minutes: float
    output: Path
    may_change_learning: bool = False


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "tune",
        help="search the settings with which a training is fastest on this machine",
        description="Search the settings with which a training is fastest on this machine, by short runs in turn.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=_as_minutes, default=20.0, metavar="N", help="to take; default: 20")
    parser.add_argument(
        "--may_change_learning",
        "--may-change-learning",
        action="store_true",
        help="also try what changes what is learned: precision, number of environments, batches that wait",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("tuning"),
        metavar="DIR",
        help="for runs, results and tuning.html; default: tuning",
    )
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the training command")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    command = arguments.training[1:] if arguments.training[:1] == ["--"] else arguments.training
    tune(TuneRequest(command, arguments.minutes, arguments.output, arguments.may_change_learning))
    return 0


def _as_minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not _LEAST_MINUTES <= minutes <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text!r}: give minutes from {_LEAST_MINUTES:g} to {_MOST_MINUTES:,}")
    return minutes


def tune(request: TuneRequest) -> None:
    """Search, print the command line that it comes to and what that rests on, and write the page.

    Raises:
        SessionError: the command fails, or trains on nothing in its share of the time.
        UsageError: the request makes no sense, or a file cannot be written.
        KeyboardInterrupt: Ctrl+C before anything is known.
    """
    if not request.command:
        raise UsageError("give the training command after --")
    seconds = 60 * request.minutes
    try:
        trials = Trials(
            request.command,
            request.output,
            seconds,
            may_change_learning=request.may_change_learning,
        )
        _say(trials, "the command as it is, to learn how long runs have to be")
        first = trials.first()
        verdict = _verdict_of(first)
        base = _base_of(first, verdict, request)
        search = Search(base, _told(trials), trials.num_left, _hints_of(verdict), trials.kept)
        try:
            with progress_shown("tuning", seconds, lambda: seconds - trials.seconds_left):
                search.run()
        except KeyboardInterrupt:
            note("Interrupted: this is what is known so far")
        _conclude(request, search.outcome(), verdict, trials)
    except OSError as error:
        raise UsageError(str(error)) from error


def _told(trials: Trials) -> Any:
    def measure(setting: Setting, round_: int) -> float | None:
        fps = trials.measure(setting, round_)
        result = "cannot run" if fps is None else f"{fps:,.0f} frames/s"
        _say(trials, f"{describe_setting(setting)}: {result}")
        return fps

    return measure


def _say(trials: Trials, text: str) -> None:
    minutes, seconds = divmod(round(trials.seconds_left), 60)
    note(f"{minutes:3d}:{seconds:02d} left  {text}")


def _verdict_of(first: FirstRun) -> Verdict:
    folder = RunFolder(first.folder)
    session = Session.load(folder.session, with_events=False)
    steady = Session.load(folder.steady, with_events=False) if folder.steady.exists() else None
    return judge(facts_of_run(session, steady))


def _base_of(first: FirstRun, verdict: Verdict, request: TuneRequest) -> Base:
    if first.flags.get("serial_mode"):
        raise UsageError("with --serial_mode=True one process does all, and there is nothing to tune: leave it out")
    return Base(first.flags, num_usable_cores(), verdict.cause == _WAITING, request.may_change_learning)


def _hints_of(verdict: Verdict) -> list[Mapping[str, Any]]:
    """Return what a verdict advises, as far as it is flags that a search tries."""
    hints: list[Mapping[str, Any]] = []
    for advice in verdict.advice:
        words = [word[2:].partition("=") for word in advice.change.split() if word.startswith("--")]
        hint = {name: _as_value(text) for name, _, text in words if name in _HINTED}
        if hint:
            hints.append(hint)
    return hints


def _as_value(text: str) -> Any:
    return int(text) if text.isdecimal() else {"True": True, "False": False}.get(text, text)


def _conclude(request: TuneRequest, outcome: Outcome, verdict: Verdict, trials: Trials) -> None:
    also = [f"Verdict on the command as it is: {verdict.headline}"]
    also += [f"{describe_setting(setting)} cannot run: {text}" for setting, text in trials.problems.items()]
    if not request.may_change_learning and outcome.best == AS_IT_IS:
        also.append("--may_change_learning would also try other numbers of environments and --precision=bf16.")
    about = f"{shlex.join(request.command)} · {num_usable_cores()} cores · {len(outcome.runs)} runs"
    page = request.output / "tuning.html"
    with written_whole(page) as partial:
        partial.write_text(format_search(request.command, outcome, also, about), encoding="utf-8")
    with written_whole(request.output / "tuning.json") as partial:
        partial.write_text(json.dumps(_as_data(request, outcome), indent=1) + "\n", encoding="utf-8")
    print(printable_text(describe_outcome(request.command, outcome, [*also, f"Page: {page}"])))


def _as_data(request: TuneRequest, outcome: Outcome) -> dict[str, Any]:
    return {
        "command": list(request.command),
        "best": dict(outcome.best),
        "leaner": None if outcome.leaner is None else dict(outcome.leaner),
        "comparison": None if outcome.comparison is None else asdict(outcome.comparison),
        "settings": [{"flags": dict(setting), "worth": worth} for setting, worth in outcome.worths.items()],
        "runs": [{"flags": dict(run.setting), "round": run.round, "fps": run.fps} for run in outcome.runs],
    }
