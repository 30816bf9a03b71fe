"""Owns what other programs can ask of a running run: captures of its processes, checkpoints, and its end.

Nothing here waits: a capture advances with every look at the control socket, so that the Runner stays free.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_profiler.component_id import INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER
from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.tools import SUFFIXES, TOOLS
from sample_profiler.run.commands.selection import KINDS, choose_components
from sample_profiler.run.commands.sender import CommandSender
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.commands.control_socket import ControlSocket
from sample_profiler.runtime.loop.slowdown import MOST_SECONDS, MOST_SHARE

__all__ = ["Control"]

logger = logging.getLogger(__name__)

_ANSWER_S = 60.0
_NUM_KEPT = 16  # captures that are over, for clients that still ask
_MAX_SECONDS = 3600.0
_STAGES = {"env": (ROLLOUT_WORKER,), "inference": (INFERENCE_WORKER, ROLLOUT_WORKER), "learner": (LEARNER,)}


@dataclass
class _RunningCapture:
    """A capture from its request to its end; `posted` and `until_s` are of the step that it is in."""

    tool: str
    seconds: float
    parts: dict[str, Path]
    members: dict[str, str]
    step: str
    posted: int
    until_s: float
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def answer_s(self) -> float:
        """How long a process may take to write its part: the longer, the more it has seen."""
        return _ANSWER_S + 2 * self.seconds

    @property
    def left(self) -> list[str]:
        """The parts that may still come."""
        return [part for part in self.parts if part not in self.errors]


class Control:
    """The control socket of a run, and the captures that were asked for over it.

    Args:
        run_folder: of the run.
        command_sender: its components.
        end: ends the run in order, for a reason.
    """

    def __init__(self, run_folder: Path, command_sender: CommandSender, end: Callable[[str], None]) -> None:
        self._folder = folder = RunFolder(run_folder.absolute())
        self._command_sender = command_sender
        self._end = end
        self._saving: dict[int, list[str]] = {}
        self._captures: dict[str, _RunningCapture] = {}
        self._numbers = itertools.count()
        self._socket: ControlSocket | None = None
        try:
            self._socket = ControlSocket(folder.control_socket, self.answer)
        except OSError as error:
            place = folder.profile
            logger.warning("No control socket in %s: %s; captures of this run cannot be asked for", place, error)

    def poll(self) -> None:
        """Answer requests and go on with captures."""
        if self._socket is not None:
            self._socket.poll()
        for capture in self._captures.values():
            self._try_to_advance(capture)

    def close(self) -> None:
        """Remove the socket; processes that capture write their parts when they end."""
        if self._socket is not None:
            self._socket.close()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request.

        `capture` begins one, `state` tells how one is, `stop` ends one early; `slow` makes a stage slower for a while;
        `save` has a checkpoint of every policy written, `saved` tells how that is; `end` ends the run.

        Raises:
            CaptureError: the request makes no sense.
        """
        match request.get("do"):
            case "capture":
                return self._begin(request)
            case "state" | "stop" as do:
                capture = self._captures.get(str(request.get("id")))
                if capture is None:
                    raise CaptureError("unknown capture: it is of another run, or was never begun")
                if do == "stop" and capture.step in ("start", "run"):
                    self._stop(capture)
                answers = self._command_sender.answers(capture.posted)
                waiting = [part for part in capture.left if capture.members[part] not in answers]
                is_waiting = capture.step in ("start", "stop")
                facts = {"results": capture.results, "errors": capture.errors}
                return {"step": capture.step, **facts, "waits_for": waiting if is_waiting else []}
            case "slow":
                return self._slow(request.get("stage"), request.get("share"), request.get("seconds"))
            case "save":
                return self._save()
            case "saved":
                return self._describe_saving(request.get("id"))
            case "end":
                self._end("it was asked to end")
                return {"ends": True}
        raise CaptureError("unknown request; allowed are capture, state, stop, slow, save, saved, end")

    def _save(self) -> dict[str, Any]:
        for earlier in list(self._saving)[:-_NUM_KEPT]:
            del self._saving[earlier]
            self._command_sender.forget(earlier)
        names = self._command_sender.names(LEARNER)
        number = self._command_sender.post("save_checkpoint", dict.fromkeys(names, ()))
        self._saving[number] = names
        return self._describe_saving(number)

    def _describe_saving(self, number: Any) -> dict[str, Any]:
        if type(number) is not int or number not in self._saving:
            raise CaptureError("unknown checkpoint: it is of another run, or was never asked for")
        answers = self._command_sender.answers(number)
        errors = {name: answer.error.strip().splitlines()[-1] for name, answer in answers.items() if answer.error}
        return {"id": number, "waits_for": [n for n in self._saving[number] if n not in answers], "errors": errors}

    def _slow(self, stage: Any, share: Any, seconds: Any) -> dict[str, Any]:
        if stage not in _STAGES:
            raise CaptureError(f"unknown stage {stage!r}; allowed are {', '.join(_STAGES)}")
        for name, value, most in (("share", share, MOST_SHARE), ("seconds", seconds, MOST_SECONDS)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise CaptureError(f"{name} is {value!r}; allowed is 0 to {most:g}")
        # Where workers draw their actions themselves, that is a stage of theirs.
        names = next((found for prefix in _STAGES[stage] if (found := self._command_sender.names(prefix))), [])
        self._command_sender.forget(
            self._command_sender.post("set_slowdown", dict.fromkeys(names, (stage, float(share), float(seconds))))
        )
        return {"slowed": names}

    def _begin(self, request: dict[str, Any]) -> dict[str, Any]:
        tool, seconds = request.get("tool"), request.get("seconds")
        if tool not in TOOLS:
            raise CaptureError(f"unknown tool {tool!r}; allowed are {', '.join(TOOLS)}")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _MAX_SECONDS:
            raise CaptureError(f"seconds is {seconds!r}; allowed is more than 0, at most {_MAX_SECONDS:g}")
        if any(capture.tool == tool and capture.step != "done" for capture in self._captures.values()):
            raise CaptureError(f"{tool} is capturing in this run already: wait until that has ended, or end it")
        over = [identity for identity, capture in self._captures.items() if capture.step == "done"]
        for identity in over[:-_NUM_KEPT]:
            del self._captures[identity]
        members = self._choose(request.get("components"), request.get("workers"))
        identity = f"{tool}_{time.strftime('%Y%m%d_%H%M%S')}_{next(self._numbers)}"
        folder = self._folder.captures / identity
        parts = {part: folder / (part + SUFFIXES[tool]) for part in members}
        # A process ends its capture by itself only if nobody asks it to: the window begins when all have begun.
        limit_s = seconds + 2 * _ANSWER_S
        arguments = {members[part]: (tool, str(path), limit_s) for part, path in parts.items()}
        posted = self._command_sender.post("start_capture", arguments)
        until_s = time.monotonic() + _ANSWER_S
        self._captures[identity] = _RunningCapture(tool, seconds, parts, members, "start", posted, until_s)
        return {"id": identity, "parts": {part: str(path) for part, path in parts.items()}}

    def _choose(self, components: Any, workers: Any) -> dict[str, str]:
        """Return who is asked, by the name of the process's part: components of one process make one part."""
        if components is not None and not (components and _is_list_of(str, components)):
            allowed = f"a list with some of {', '.join(KINDS)}, and names of components"
            raise CaptureError(f"components is {components!r}; allowed is {allowed}")
        if workers is not None and not _is_list_of(int, workers):
            raise CaptureError(f"workers is {workers!r}; allowed is a list with indices of rollout workers")
        wanted = choose_components(self._command_sender.names(), components, workers)
        pids = [member.pid for member in self._command_sender.members]
        chosen: dict[str, str] = {}
        for member in self._command_sender.members:
            if member.name in wanted:
                chosen.setdefault(member.name if pids.count(member.pid) == 1 else "Serial", member.name)
        return chosen

    def _stop(self, capture: _RunningCapture) -> None:
        """Ask for the parts; a component that has not begun yet gets this after the request to begin."""
        self._command_sender.forget(capture.posted)
        arguments: dict[str, tuple[Any, ...]] = {capture.members[part]: (capture.tool,) for part in capture.left}
        capture.posted = self._command_sender.post("stop_capture", arguments)
        capture.step, capture.until_s = "stop", time.monotonic() + capture.answer_s

    def _try_to_advance(self, capture: _RunningCapture) -> None:
        try:
            self._advance(capture)
        except OSError as error:  # the run is not over for a profiler's sake
            logger.warning("A capture with %s is given up: %s", capture.tool, error)
            capture.errors |= dict.fromkeys(capture.left, f"the run cannot reach it: {error}")
            capture.step = "done"

    def _advance(self, capture: _RunningCapture) -> None:
        now_s = time.monotonic()
        if capture.step == "run" and now_s >= capture.until_s:
            self._stop(capture)
        if capture.step not in ("start", "stop"):
            return
        answers = self._command_sender.answers(capture.posted)
        for part in capture.left:
            answer = answers.get(capture.members[part])
            if answer is None:
                continue
            if answer.error is not None:
                capture.errors[part] = answer.error.strip().splitlines()[-1]
            elif capture.step == "stop" and answer.value is None:
                capture.errors[part] = "its capture had not begun"
            elif capture.step == "stop":
                capture.results[part] = answer.value
        waiting = [part for part in capture.left if capture.members[part] not in answers]
        if waiting and now_s < capture.until_s:
            return
        answer_s = _ANSWER_S if capture.step == "start" else capture.answer_s
        capture.errors.update(dict.fromkeys(waiting, f"did not answer within {answer_s:g} s"))
        if capture.step == "start" and waiting:  # should they still begin
            self._command_sender.forget(
                self._command_sender.post("stop_capture", {capture.members[p]: (capture.tool,) for p in waiting})
            )
        if capture.step == "start" and capture.left:
            capture.step, capture.until_s = "run", now_s + capture.seconds
            return
        self._command_sender.forget(capture.posted)
        capture.step = "done"


def _is_list_of(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)
