"""Owns the talk with a running run about one capture: ask for it, follow it, end it early, learn what came of it."""

from __future__ import annotations

import contextlib
import math
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeGuard

from sample_profiler.cli.common.problems import note
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.reports.sections.distance import describe_hosts, is_running
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.commands.control_socket import ControlClient, foreign_answer

__all__ = [
    *("CaptureOutcome", "CaptureRequest", "Interruption", "capture_live", "connected", "describe_obstacle"),
    "interruption",
]

_POLL_S = 0.1
_PATIENCE_S = 2.0
_LOST = "the run ended, or hung, before it told of this part"
_NAME = re.compile(r"[\w-]+", re.ASCII)
_ERROR_NAME = re.compile(r"^(?:sample_profiler\.errors\.\w+|\w+Error): ")


@dataclass(frozen=True)
class CaptureRequest:
    """What to capture.

    Attributes:
        tool: `timeline`, or one of `captures.TOOLS`.
        components: kinds, of `selection.KINDS`, and names; None: all.
        workers: rollout workers by index; None: all.
        seconds: how long.
        has_native_frames: of `py-spy`: whether frames of compiled code are in the stacks, too.
        is_of_gil: of `py-spy`: whether only the thread counts that has the interpreter's lock.
    """

    tool: str
    components: Sequence[str] | None
    workers: Sequence[int] | None
    seconds: float
    has_native_frames: bool = False
    is_of_gil: bool = False


@dataclass
class CaptureOutcome:
    """What came of a capture.

    Attributes:
        name: of the capture, ``{tool}_{date}_{time}_{number}``.
        parts: the file of each process that has written one.
        facts: about parts: when it began and ended, and whether it is empty; not of all, if the run has ended.
        errors: why there is no part, by process.
    """

    name: str
    parts: dict[str, Path] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


class Interruption:
    """Whether somebody has pressed Ctrl+C."""

    def __init__(self) -> None:
        self.is_wanted = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take the first signal as a wish, and the second as an order."""
        if self.is_wanted:
            signal.default_int_handler(number, frame)
        self.is_wanted = True


@contextlib.contextmanager
def interruption() -> Iterator[Interruption]:
    """Let the first Ctrl+C only be noted, so that what has been captured is kept; the second one ends the program."""
    noted = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield noted  # only the main thread can handle signals
        return
    previous = signal.signal(signal.SIGINT, noted)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def connected(run_dir: Path) -> Iterator[ControlClient]:
    """Connect to a run that goes on.

    Args:
        run_dir: the run's folder.

    Raises:
        CaptureError: the run cannot be asked; or an OSError of the talk with it, which has ended or hangs.
    """
    try:
        client = ControlClient(RunFolder(run_dir).control_socket)
    except OSError as error:
        raise CaptureError(_explain(run_dir, error)) from error
    with contextlib.closing(client):
        try:
            yield client
        except OSError as error:
            raise CaptureError(f"the run in {run_dir} ended, or hangs: {error}; see sample-profiler status") from error


def capture_live(
    run_dir: Path, request: CaptureRequest, interrupted: Interruption, on_progress: Callable[[str], None]
) -> CaptureOutcome:
    """Let processes of a run capture, and wait until they have written what they saw.

    Args:
        run_dir: the run's folder.
        request: with a tool of `captures.TOOLS`.
        interrupted: ends the capture early once it is wanted.
        on_progress: is told the step that the capture is in, again and again: ``start``, ``run``, ``stop``.

    Raises:
        CaptureError: the run cannot be asked, or the request makes no sense.
    """
    with connected(run_dir) as client:
        answer = client.ask(
            {
                "do": "capture",
                "tool": request.tool,
                "seconds": request.seconds,
                "components": None if request.components is None else list(request.components),
                "workers": None if request.workers is None else list(request.workers),
            }
        )
        if "error" in answer:
            raise CaptureError(str(answer["error"]))
        name, planned = _read_plan(run_dir, answer)
        outcome = CaptureOutcome(name)
        try:
            state = _follow(client, outcome.name, interrupted, on_progress)
        except KeyboardInterrupt:
            with contextlib.suppress(OSError, CaptureError):  # the rest of an answer
                client.ask({"do": "stop", "id": outcome.name})
            folder = RunFolder(run_dir).captures / outcome.name
            raise CaptureError(f"left: the run ends the capture; what its processes write is in {folder}") from None
        except OSError:
            state = {"results": {}, "errors": {}}  # what the processes wrote at their end is there nevertheless
    outcome.facts = dict(state["results"])
    outcome.parts = {process: path for process, path in planned.items() if path.is_file()}
    errors = {process: _ERROR_NAME.sub("", str(error)) for process, error in state["errors"].items()}
    outcome.errors = {process: errors.get(process, _LOST) for process in planned if process not in outcome.parts}
    return outcome


def _read_plan(run_dir: Path, answer: dict[str, Any]) -> tuple[str, dict[str, Path]]:
    """Return the name of a capture and where each process writes its part: these files are read, and then deleted.

    Raises:
        CaptureError: the answer is not a run's, or leads out of its folder.
    """
    name, parts = answer.get("id"), answer.get("parts")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not _is_texts(parts):
        raise foreign_answer(answer)
    planned = {process: Path(path) for process, path in parts.items()}
    try:
        is_inside = all(path.resolve().is_relative_to(run_dir.resolve()) for path in planned.values())
    except (OSError, RuntimeError, ValueError):  # links in a circle; a null character
        is_inside = False
    if not is_inside:
        raise foreign_answer(answer)
    return name, planned


def _check_state(state: dict[str, Any]) -> None:
    """Raise a CaptureError unless this is the state of a capture, as far as anybody here looks at it."""
    waits_for, results = state.get("waits_for", []), state.get("results")
    if (
        not isinstance(state.get("step"), str)
        or not (isinstance(waits_for, list) and all(isinstance(name, str) for name in waits_for))
        or not (isinstance(results, dict) and all(map(_are_facts, results.values())))
        or not _is_texts(state.get("errors"))
    ):
        raise foreign_answer(state)


def _are_facts(facts: object) -> bool:
    return (
        isinstance(facts, dict)
        and isinstance(facts.get("is_empty"), bool)
        and all(isinstance(facts.get(moment), int) for moment in ("start_ns", "end_ns"))
    )


def _is_texts(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _follow(
    client: ControlClient, name: str, interrupted: Interruption, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Return the last state of a capture.

    Raises:
        OSError: the run has ended.
        CaptureError: the run does not know the capture, or what answers is no run.
    """
    ending_s = math.inf
    is_told = False
    while True:
        do = "state"
        if interrupted.is_wanted and ending_s == math.inf:
            do, ending_s = "stop", time.monotonic()
        state = client.ask({"do": do, "id": name})
        if "error" in state:
            raise CaptureError(str(state["error"]))
        _check_state(state)
        if time.monotonic() > ending_s + _PATIENCE_S and not is_told and state.get("waits_for"):
            is_told = True
            names = ", ".join(state["waits_for"])
            note(f"Waiting for {names} to answer; Ctrl+C again leaves without")
        on_progress(state["step"])
        if state["step"] == "done":
            return state
        time.sleep(_POLL_S)


def _explain(run_dir: Path, error: OSError) -> str:
    """Say why nobody listens."""
    if isinstance(error, PermissionError):
        return f"the run in {run_dir} belongs to another user, who alone can ask for captures"
    if not run_dir.is_dir():
        return f"{run_dir} is no folder; give the folder of a run, {{train_dir}}/{{experiment}}"
    try:
        session = read_session(run_dir, with_events=False, with_histograms=False)
    except SessionError as problem:
        return str(problem)
    return describe_obstacle(run_dir, session) or (
        f"nobody answers in {run_dir} ({error.strerror or error}): a run answers once its components have started, and "
        "a script of your own never does; --tool timeline works without"
    )


def describe_obstacle(run_dir: Path, session: Session) -> str:
    """Return why nothing can be captured of a run from here; empty: nothing is known that keeps it from being."""
    if hosts := describe_hosts(session):
        return f"the run in {run_dir} is on {hosts}, and can be captured from there alone: run this command there"
    return "" if is_running(session) else f"the run in {run_dir} has ended: capture one that goes on, or start it again"
