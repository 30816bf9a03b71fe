"""Owns the layout of a run's folder: what each file in it is called, and where it is.

Nobody else joins these names, so what is in a folder is said once. Nothing is written here; read is only config.json,
which says where the record files of its run are.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from sample_profiler.errors import SessionError
from sample_profiler.files import expand_home, read_small_text

__all__ = ["EARLIER", "LiveFolder", "RunFolder", "name_of_rank", "other_ranks", "read_config_file"]

EARLIER = ".earlier"
"""Ends the names of an earlier run's files while it is open whether the run that goes on with it will train."""

_RANK = ".rank"
_MOST_DIGITS = 9  # of the number of a rank
_RECORD = ".rec"
_BEING_MADE = ".new"


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, or of a script that records itself.

    ::

        train_dir/{experiment}/
          config.json                       every flag, its value and where that came from
          config.json.earlier               the one before, until a run that is resumed has trained
          log.txt                           what the terminal showed, all processes
          checkpoint_p{policy}/             checkpoints of a policy; loading one executes nothing
          checkpoint_p{policy}/milestones/  those that are never removed
          summary/{policy}/                 TensorBoard events of a policy
          summary/{experiment}_timers.json  timers and gauges of all components
          report.html                       verdict, accounts, blocks, figures over time
          profile/session.json              what all components have recorded, as data
          profile/steady.json               the same without the run's start and end
          profile/history.json              figures over time of a run that goes on, or that did not end well
          profile/live/                     record files of a run that goes on, or that did not end well
          profile/control.sock              where a run that goes on is asked for captures
          profile/captures/                 documents of captures
          profile/worker_{worker}.json      the trace of a RolloutWorker that was asked for by its rollouts
          profile/timeline.json             the timeline of --timeline_seconds
          profile/trace.json.gz             the timeline of `sample-profiler trace`
          benchmark.json                    throughput and machine, with --benchmark; with --thresholds times to them
          replay                            the video of --save_video, with .mp4 or .gif behind it
          policy_p{policy}                  a policy for other programs, with .onnx, .pt or .safetensors behind it
          eval_p{policy}                    results of `sample-profiler eval`, with .csv or .json behind it
          tracking/{tracker}/state.json     which run of a tracker this one is, and how much of it is there
          tracking/{tracker}/files          what that tracker is being told of
          tracking/{tracker}/log.txt        what the process has printed that tells a tracker
          compared.json                     the command of a run that `sample-profiler compare` has made

    Where several ranks train together, that is the first one's; the others have such folders, without checkpoints,
    beside it: ``{experiment}.rank1`` and so on.

    Args:
        path: of the folder, which need not exist.
    """

    path: Path

    @property
    def config(self) -> Path:
        """The flags."""
        return self.path / "config.json"

    @property
    def earlier_config(self) -> Path:
        """What a resumed run's flags were before; it is there until that run has trained."""
        return self.aside(self.config)

    def config_to_resume(self) -> Path:
        """Return the flags to resume with: not those of a run that was killed before it had trained."""
        return self.earlier_config if self.earlier_config.exists() else self.config

    @property
    def log(self) -> Path:
        """The log."""
        return self.path / "log.txt"

    def checkpoints(self, policy: int) -> Path:
        """Return where the checkpoints of a policy are."""
        return self.path / f"checkpoint_p{policy}"

    def all_checkpoints(self) -> list[Path]:
        """Return what is there, of any policy, under the name of a folder of checkpoints; sorted."""
        return sorted(self.path.glob("checkpoint_p*"))

    @staticmethod
    def milestones(checkpoints: Path) -> Path:
        """Return where those of a folder of checkpoints are that are never removed."""
        return checkpoints / "milestones"

    @property
    def summary(self) -> Path:
        """Where TensorBoard looks."""
        return self.path / "summary"

    def summary_of(self, policy: int) -> Path:
        """Return where the TensorBoard events of a policy are."""
        return self.summary / str(policy)

    def event_files_of(self, policy: int) -> list[Path]:
        """Return the files with the TensorBoard events of a policy, the oldest first."""
        return sorted(self.summary_of(policy).glob("events.out.tfevents.*"))

    @property
    def timers(self) -> Path:
        """Timers and gauges."""
        return self.summary / f"{self.path.name}_timers.json"

    @property
    def report(self) -> Path:
        """The page with all figures."""
        return self.path / "report.html"

    @property
    def benchmark(self) -> Path:
        """Throughput and machine, and when thresholds were reached."""
        return self.path / "benchmark.json"

    @property
    def replay(self) -> Path:
        """A video of the policy, but for the end of its name, which says what it is."""
        return self.path / "replay"

    def replays(self) -> list[Path]:
        """Return the videos of the policy that are there, and not somewhere else."""
        paths = [self.replay.with_suffix(ending) for ending in (".mp4", ".gif")]
        return [path for path in paths if path.is_file() and not path.is_symlink()]

    def evaluation(self, policy: int) -> Path:
        """Return where the results of evaluating a policy are, but for the end of the name, which says what it is."""
        return self.path / f"eval_p{policy}"

    def exported(self, policy: int) -> Path:
        """Return where a policy for other programs is, but for the end of its name, which says what it is."""
        return self.path / f"policy_p{policy}"

    def tracking(self, tracker: str) -> Path:
        """Return where it is kept how far a tracker has been told of the run."""
        return self.path / "tracking" / tracker

    def tracking_state(self, tracker: str) -> Path:
        """Return what says which run of a tracker this one is."""
        return self.tracking(tracker) / "state.json"

    def tracking_log(self, tracker: str) -> Path:
        """Return where what a tracker's libraries print goes."""
        return self.tracking(tracker) / "log.txt"

    def tracking_files(self, tracker: str) -> Path:
        """Return where files are that a tracker is being told of."""
        return self.tracking(tracker) / "files"

    @property
    def compared(self) -> Path:
        """Says of a run that was made to be compared by which command, once it is complete."""
        return self.path / "compared.json"

    @property
    def profile(self) -> Path:
        """Where recordings are."""
        return self.path / "profile"

    @property
    def session(self) -> Path:
        """What a run leaves behind."""
        return self.profile / "session.json"

    @property
    def steady(self) -> Path:
        """The session of the steady part, without start and end."""
        return self.profile / "steady.json"

    @property
    def history(self) -> Path:
        """Figures over the time of a run that goes on; its session has them in the end."""
        return self.profile / "history.json"

    @property
    def control_socket(self) -> Path:
        """Where other programs ask a run that goes on."""
        return self.profile / "control.sock"

    @property
    def captures(self) -> Path:
        """Documents of captures; while one goes on, and where it broke off, a folder of its parts."""
        return self.profile / "captures"

    def rollout_trace(self, worker: int | str) -> Path:
        """Return where the trace of a RolloutWorker goes.

        Args:
            worker: its index, or what stands for that in a pattern.
        """
        return self.profile / f"worker_{worker}.json"

    @property
    def timeline(self) -> Path:
        """The timeline of a window of the run."""
        return self.profile / "timeline.json"

    @property
    def trace(self) -> Path:
        """The timeline of the latest events."""
        return self.profile / "trace.json.gz"

    @property
    def own_live(self) -> LiveFolder:
        """Where record files are unless there is a --profile_dir."""
        return LiveFolder(self.profile / "live")

    def live(self, profile_dir: str | None = None) -> LiveFolder:
        """Return where the record files are.

        Args:
            profile_dir: what the run was told of it; None: what its config.json says.

        Raises:
            SessionError: it is below a home directory that there is none of here.
        """
        folder = self.flag_values().get("profile_dir") if profile_dir is None else profile_dir
        if not folder or not isinstance(folder, str):
            return self.own_live
        # A folder of its own: several runs may be given the same one, also runs of one name.
        # One and the same from wherever it is looked at.
        full = self.path.resolve()
        name = f"{full.name}_{hashlib.sha256(os.fsencode(full)).hexdigest()[:8]}"
        return LiveFolder(expand_home(folder, "--profile_dir", SessionError) / name)

    def flag_values(self) -> dict[str, Any]:
        """Return what config.json says, by flag; if it cannot be read nothing, for it only adds to the recordings."""
        try:
            return {name: entry["value"] for name, entry in read_config_file(self.config)["flags"].items()}
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return {}

    @staticmethod
    def aside(path: Path) -> Path:
        """Return what one of an earlier run's files is called while it is open whether the present one will train."""
        return path.with_name(path.name + EARLIER)

    def documents_aside(self) -> list[Path]:
        """Return the recordings of an earlier run that have such names, but for its record files."""
        return list(self.profile.glob(f"*.json{EARLIER}"))


@dataclass(frozen=True)
class LiveFolder:
    """Where the processes of a run have their record files, ``{process}.{pid}.rec``.

    Args:
        path: of the folder, which need not exist.
    """

    path: Path

    def record(self, process_name: str, pid: int) -> Path:
        """Return where a process has its record file."""
        return self.path / f"{process_name}.{pid}{_RECORD}"

    def records(self, process_name: str | None = None) -> list[Path]:
        """Return the record files that there are, sorted.

        Args:
            process_name: only those of processes of this name; None: all.
        """
        found = sorted(self.path.glob(f"*{_RECORD}"))
        return [path for path in found if process_name in (None, path.stem.rpartition(".")[0])]

    @staticmethod
    def being_made(record: Path) -> Path:
        """Return what a record file is called until it is whole."""
        return record.with_name(f".{record.name}{_BEING_MADE}")

    def records_being_made(self) -> list[Path]:
        """Return the beginnings of record files: those of processes that were killed meanwhile stay."""
        return list(self.path.glob(f".*{_RECORD}{_BEING_MADE}"))

    def records_aside(self) -> list[Path]:
        """Return the record files of an earlier run that have names of `RunFolder.aside`."""
        return list(self.path.glob(f"*{_RECORD}{EARLIER}"))


def name_of_rank(experiment: str, rank: int) -> str:
    """Return what the run of another rank is called that trains together with this one; its folder is beside."""
    return f"{experiment}{_RANK}{rank}"


def other_ranks(first: RunFolder) -> list[tuple[int, RunFolder]]:
    """Return the ranks that train together with the first one, and their folders, as far as they are here."""
    path = first.path.absolute()
    found = path.parent.glob(f"{escape(path.name)}{_RANK}*")
    numbers = [each.name.removeprefix(path.name + _RANK) for each in found]
    ranks = sorted(int(number) for number in numbers if number.isdecimal() and len(number) <= _MOST_DIGITS)
    return [(rank, RunFolder(path.parent / name_of_rank(path.name, rank))) for rank in ranks]


def read_config_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what is in a config.json, or in what was one: a document with `flags`, an object for each by its name.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON, a name stands there twice, or it has no flags.
        RecursionError: it is nested deeper than anything that was written here.
    """
    document = json.loads(read_small_text(path), object_pairs_hook=_make_unique)
    if not isinstance(document, dict) or not isinstance(document.get("flags"), dict):
        is_theirs = isinstance(document, dict) and "algo" in document and "cli_args" in document
        cure = ", as those of Sample Factory have none: make a run of it with sample-profiler import-checkpoint"
        raise ValueError(f"it has no flags{cure if is_theirs else ''}")
    return document


def _make_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object, refusing a name that stands there twice: which value counts would be a guess."""
    unique: dict[str, Any] = {}
    for name, value in pairs:
        if name in unique:
            raise ValueError(f"{name!r} stands there twice")
        unique[name] = value
    return unique
