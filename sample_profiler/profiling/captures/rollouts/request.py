"""Owns what may be asked of a rollout-counted capture, for whom, and where its traces go; all checks are made here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_profiler.files import expand_home
from sample_profiler.run_folder import RunFolder

__all__ = ["ACTIVITIES", "ProfileOptions", "ProfileRequest", "plan_profiles"]

ACTIVITIES = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """What a capture of rollouts records.

    Attributes:
        num_rollouts: after which the capture ends by itself, warm-up included.
        warmup_rollouts: how many of them, at the front, are in no trace.
        activities: "cpu", "cuda", or members of `torch.profiler.ProfilerActivity`; None: the processor, and the GPU
            where the process already uses it.
        record_shapes: note the shapes of the arguments of operators.
        profile_memory: note allocations of tensors.
        with_stack: also record every call of a Python function.
        with_flops: estimate floating-point operations.
        on_trace_ready: is called in the worker with the `torch.profiler.profile` once the trace has been written.
    """

    num_rollouts: int = 3
    warmup_rollouts: int = 1
    activities: Iterable[Any] | None = None
    record_shapes: bool = True
    profile_memory: bool = False
    with_stack: bool = True
    with_flops: bool = False
    on_trace_ready: Callable[[Any], object] | None = None


@dataclass(frozen=True, kw_only=True)
class ProfileRequest(ProfileOptions):
    """A capture of one rollout worker, whose options have been checked; travels to it.

    Attributes:
        path: absolute name of the trace; its folder exists.
        activities: names among `ACTIVITIES`; None as in the options.
    """

    path: str
    activities: tuple[str, ...] | None = None


def plan_profiles(
    num_workers: int,
    folder: Path,
    options: ProfileOptions,
    *,
    workers: Iterable[int] | None = None,
    save_path: str | Path | None = None,
) -> dict[int, ProfileRequest]:
    """Check what is asked for, make the folders of the traces, and return a request for each worker, by its index.

    Args:
        num_workers: rollout workers that there are.
        folder: of the run, for the default of `save_path`.
        options: of each capture.
        workers: which of them; None: worker 0.
        save_path: where traces go, with ``{worker_idx}`` for the worker's index; None:
            ``{folder}/profile/worker_{worker_idx}.json``. A name that ends in ``.gz`` is compressed.

    Raises:
        ValueError: the numbers do not fit each other; a worker that does not exist; an unknown activity; a save_path
            that cannot be formatted, or that several workers would write to.
        OSError: a folder cannot be made.
    """
    num_rollouts, warmup_rollouts = _check_counts(options.num_rollouts, options.warmup_rollouts)
    if options.on_trace_ready is not None and not callable(options.on_trace_ready):
        raise ValueError(
            f"on_trace_ready={options.on_trace_ready!r} cannot be called: give a function of the profiler, or None"
        )
    checked: dict[str, Any] = vars(options) | {
        "num_rollouts": num_rollouts,
        "warmup_rollouts": warmup_rollouts,
        "activities": None if options.activities is None else _activity_names(options.activities),
    }
    pattern = _default_pattern(folder) if save_path is None else str(save_path)
    paths = _format_paths(pattern, _choose_workers(workers, num_workers))
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    return {worker: ProfileRequest(path=str(path), **checked) for worker, path in paths.items()}


def _default_pattern(folder: Path) -> str:
    # Braces in the names of the run's folders are none of the pattern's.
    escaped = Path(str(folder).replace("{", "{{").replace("}", "}}"))
    return str(RunFolder(escaped).rollout_trace("{worker_idx}"))


def _check_counts(num_rollouts: int, warmup_rollouts: int) -> tuple[int, int]:
    """Return the two as Python's own integers."""
    num = _check_count("num_rollouts", num_rollouts)
    num_warmup = _check_count("warmup_rollouts", warmup_rollouts)
    if not num > num_warmup >= 0:
        raise ValueError(
            f"num_rollouts={num_rollouts} and warmup_rollouts={warmup_rollouts} do not fit: num_rollouts > "
            "warmup_rollouts >= 0 is needed, since num_rollouts counts the warm-up rollouts, which are in no trace"
        )
    return num, num_warmup


def _check_count(name: str, value: int) -> int:
    number = _whole_number(value)
    if number is None:
        raise ValueError(f"{name}={value!r} is no whole number of rollouts")
    return number


def _whole_number(value: Any) -> int | None:
    """Return what is a whole number, also numpy's, as Python's own; None: it is none. True and False are none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _choose_workers(workers: Iterable[int] | None, num_workers: int) -> list[int]:
    if isinstance(workers, (int, str)) or (workers is not None and not isinstance(workers, Iterable)):
        raise ValueError(f"workers={workers!r} is no list of workers: give their indices, as in workers=[0]")
    chosen = [0] if workers is None else list(dict.fromkeys(workers))
    if not chosen:
        raise ValueError("workers is empty: name at least one rollout worker, or None for worker 0")
    return [_check_worker(worker, num_workers) for worker in chosen]


def _check_worker(worker: int, num_workers: int) -> int:
    index = _whole_number(worker)
    if index is None or not 0 <= index < num_workers:
        raise ValueError(f"there is no rollout worker {worker!r}: there are {num_workers}, counted from 0")
    return index


def _activity_names(activities: Iterable[Any]) -> tuple[str, ...]:
    wanted = [activities] if isinstance(activities, str) else list(activities)
    # Members of ProfilerActivity are told by their name: nobody has to import torch for this.
    names = [str(getattr(activity, "name", activity)).lower() for activity in wanted]
    for name, activity in zip(names, wanted, strict=True):
        if name not in ACTIVITIES:
            raise ValueError(f"unknown activity {activity!r}: there are {', '.join(map(repr, ACTIVITIES))}")
    if not names:
        raise ValueError(f"activities is empty, so nothing would be recorded: name some of {ACTIVITIES}, or None")
    return tuple(dict.fromkeys(names))


def _format_paths(pattern: str, workers: list[int]) -> dict[int, Path]:
    try:
        names = {worker: pattern.format(worker_idx=worker) for worker in workers}
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise ValueError(
            f"save_path={pattern!r} cannot be formatted ({type(error).__name__}: {error}): the only field is "
            "{worker_idx}, and other braces have to be doubled"
        ) from error
    paths = {worker: expand_home(name, "save_path", ValueError).absolute() for worker, name in names.items()}
    if len(set(paths.values())) < len(paths):
        raise ValueError(
            f"save_path={pattern!r} is the same file for {len(paths)} workers: put {{worker_idx}} into it, as in "
            "'./traces/worker_{worker_idx}.json'"
        )
    for path in paths.values():
        if path.is_dir():
            raise ValueError(f"save_path={pattern!r}: {path} is a folder: name the file of the trace")
    return paths
