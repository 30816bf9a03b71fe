"""Owns what somebody is called for while a run goes on, and how: by a command of theirs, or a message to an address."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import shlex
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sample_profiler.components.messages import CheckpointSaved
from sample_profiler.repeated_warnings import is_logged
from sample_profiler.reports.sections.tables import format_duration, format_value
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus
from sample_profiler.run.runner import Runner

__all__ = ["Alerts", "Caller"]

logger = logging.getLogger(__name__)

STALLED_S = 300.0
"""Without a single frame trained on, from the first one on."""
SLOWER = 0.5
"""Share of the best throughput of five minutes below which a run is slow."""
GROWN = 1.5
"""Times the memory that a run had when it was warm from which it leaks, if that is at least `_GROWN_MIB` more."""

_GROWN_MIB = 1024.0
_MEMORY = "memory_mib"
_WARM_S = 600.0
_WINDOW_S = 300
_WAITING = 100  # alerts, for whoever is called slowly
_PATIENCE_S = 30.0
_LAST_S = 5.0


class Caller:
    """Calls somebody, in a thread of its own: a command that hangs or an address that does not answer costs nothing.

    Args:
        command: words of a command line, which no shell reads; gets the alert as JSON on standard input, and as
            SAMPLE_PROFILER_ALERT, SAMPLE_PROFILER_RUN and SAMPLE_PROFILER_TEXT. Empty: none.
        webhook: address that the alert is sent to as JSON, by POST. Empty: none.
    """

    def __init__(self, command: str, webhook: str) -> None:
        self._words = shlex.split(command)
        self._webhook = webhook
        self._alerts: queue.Queue[dict[str, Any] | None] = queue.Queue(_WAITING)
        self._num_failed = 0
        self._is_over = False
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._serve, name="alerts", daemon=True)
        self._thread.start()

    def call(self, alert: dict[str, Any]) -> None:
        """Have somebody called; with too many who wait to be told, do nothing."""
        with contextlib.suppress(queue.Full):
            self._alerts.put_nowait(alert)

    def close(self) -> None:
        """Wait a little for the last calls; a command that hangs ends now. Again, do nothing."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(queue.Full):
            self._alerts.put(None, timeout=_LAST_S)
        self._thread.join(_LAST_S)
        self._is_over = True
        if self._thread.is_alive() and (child := self._child) is not None:
            child.kill()

    def _serve(self) -> None:
        while (alert := self._alerts.get()) is not None and not self._is_over:
            for call in (self._run_command, self._post):
                self._try(call, alert)

    def _try(self, call: Callable[[dict[str, Any]], None], alert: dict[str, Any]) -> None:
        try:
            call(alert)
        except Exception as error:  # of whatever is called
            self._num_failed += 1
            if is_logged(self._num_failed):
                logger.warning("The alert %r reached nobody: %s", alert["alert"], error)

    def _run_command(self, alert: dict[str, Any]) -> None:
        if not self._words:
            return
        told = {"ALERT": alert["alert"], "RUN": alert["run"], "TEXT": alert["text"]}
        environment = {**os.environ, **{f"SAMPLE_PROFILER_{name}": str(value) for name, value in told.items()}}
        # A session of its own: Ctrl+C is for the run.
        self._child = subprocess.Popen(
            self._words,
            env=environment,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with self._child as child:
            try:
                _, problem = child.communicate(json.dumps(alert).encode(), _PATIENCE_S)
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            last_words = problem.decode(errors="replace").strip()[-200:]
            raise OSError(f"{self._words[0]} ended with {child.returncode}: {last_words}")

    def _post(self, alert: dict[str, Any]) -> None:
        if not self._webhook:
            return
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._webhook, json.dumps(alert).encode(), headers)
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            answer.read(1)


class Alerts(RunObserver):
    """Calls somebody when a run fails, stalls, leaks memory, gets slower, or has a new best policy.

    Of what lasts, once: again only after it was over.

    Args:
        folder: of the run.
        caller: calls.
    """

    def __init__(self, folder: Path, caller: Caller) -> None:
        self._folder = folder
        self._caller = caller
        self._runner: Runner | None = None
        self._lasting: set[str] = set()
        self._latest_frames = 0
        self._trained_s: float | None = None
        self._best_rate = 0.0
        self._warm_mib: float | None = None

    def on_connect_components(self, runner: Runner) -> None:
        """Hear of checkpoints."""
        self._runner = runner
        runner.signals.checkpoint_saved.connect(self._on_checkpoint)

    def on_status(self, status: RunStatus) -> None:
        """Look for what somebody is to be called for."""
        self._look_at_frames(sum(status.frames.values()), time.monotonic())
        self._look_at_rate(status)
        self._look_at_memory(status.elapsed_s)

    def on_stop(self, runner: Runner) -> None:
        """Tell of a failure, and let the caller go."""
        if runner.failure is not None:
            self._tell("failed", f"{runner.failure.component} failed: {runner.failure.message}")
        self._caller.close()

    def _on_checkpoint(self, saved: CheckpointSaved) -> None:
        if saved.kind == "best":
            self._tell("new_best", f"policy {saved.policy} is the best so far, after {saved.frames:,} frames")

    def _look_at_frames(self, frames: int, now_s: float) -> None:
        if frames != self._latest_frames:
            self._latest_frames, self._trained_s = frames, now_s
        stalled_s = 0.0 if self._trained_s is None else now_s - self._trained_s
        text = f"nothing was trained on for {format_duration(stalled_s)}: sample-profiler status {self._folder}"
        self._tell_while("stalled", text, is_so=stalled_s >= STALLED_S)

    def _look_at_rate(self, status: RunStatus) -> None:
        if status.elapsed_s < _WARM_S:
            return
        rate = status.fps.get(_WINDOW_S, 0.0)
        self._best_rate = max(self._best_rate, rate)
        told = (
            f"{format_value(rate)} frames/s over {format_duration(_WINDOW_S)}, {format_value(self._best_rate)} at best"
        )
        self._tell_while("slower", told, is_so=rate < SLOWER * self._best_rate)

    def _look_at_memory(self, elapsed_s: float) -> None:
        mib = None if self._runner is None else self._runner.records.latest(_MEMORY)
        if mib is None or elapsed_s < _WARM_S:
            return
        if self._warm_mib is None:
            self._warm_mib = mib
        text = f"all processes have {mib:,.0f} MiB; it was {self._warm_mib:,.0f} when the run was warm"
        self._tell_while("leak", text, is_so=mib > max(GROWN * self._warm_mib, self._warm_mib + _GROWN_MIB))

    def _tell_while(self, alert: str, text: str, *, is_so: bool) -> None:
        if is_so and alert not in self._lasting:
            self._tell(alert, text)
        (self._lasting.add if is_so else self._lasting.discard)(alert)

    def _tell(self, alert: str, text: str) -> None:
        logger.info("Alert: %s: %s", alert, text)
        told = {
            "alert": alert,
            "run": self._folder.name,
            "text": text,
            "folder": str(self._folder),
            "time": time.time(),
        }
        self._caller.call(told)
