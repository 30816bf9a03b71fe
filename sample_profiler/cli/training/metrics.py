"""Owns the figures of a run for Prometheus and others that scrape: OpenMetrics over HTTP, on this machine alone."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus
from sample_profiler.run.runner import Runner

__all__ = ["CONTENT_TYPE", "MetricsServer", "format_metrics"]

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_PREFIX = "sample_profiler"
_HELP = {
    "elapsed_seconds": "Time since the first component was started, without the time for which the run stood still.",
    "progress_ratio": "Share of what the run is to do that is done, by frames or by time.",
    "frames_per_second": "Frames trained on per second, over a window of so many seconds.",
    "sampled_frames": "Frames sampled in this run.",
    "trained_frames": "Frames trained on, earlier runs included.",
    "episodes": "Episodes that have ended in this run.",
    "policy_lag_steps": "Mean lag of the samples trained on in this run, in optimizer steps.",
    "episode": "Mean of a statistic over the latest episodes.",
    "training": "The Learner's latest statistics.",
    "evaluation": "Statistics of the latest evaluation.",
}
_COUNTERS = {"sampled_frames", "trained_frames", "episodes"}

_Sample = tuple[str, dict[str, str], float]


def format_metrics(run: str, status: RunStatus) -> str:
    """Return a run's figures in the text form of OpenMetrics 1.0.

    Args:
        run: its name, a label of every figure.
        status: how it is.
    """
    by_family: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family, labels, value in _samples(status):
        if math.isfinite(value):
            by_family.setdefault(family, []).append((labels, value))
    lines = []
    for family, samples in by_family.items():
        name, is_counter = f"{_PREFIX}_{family}", family in _COUNTERS
        lines += [f"# TYPE {name} {'counter' if is_counter else 'gauge'}", f"# HELP {name} {_HELP[family]}"]
        for labels, value in samples:
            told = ",".join(f'{label}="{_escape(text)}"' for label, text in {"run": run, **labels}.items())
            lines.append(f"{name}{'_total' if is_counter else ''}{{{told}}} {value:.10g}")
    return "\n".join([*lines, "# EOF\n"])


def _samples(status: RunStatus) -> Iterator[_Sample]:
    yield "elapsed_seconds", {}, status.elapsed_s
    yield "progress_ratio", {}, status.progress
    yield "sampled_frames", {}, float(status.sampled_frames)
    yield from (("frames_per_second", {"window": str(window)}, rate) for window, rate in status.fps.items())
    for policy, frames in status.frames.items():
        of_policy = {"policy": str(policy)}
        yield "trained_frames", of_policy, float(frames)
        yield "episodes", of_policy, float(status.num_episodes[policy])
        yield "policy_lag_steps", of_policy, status.policy_lag[policy][0]
        evaluation = status.evaluation.get(policy)
        groups = {"episode": status.episodes[policy], "training": status.training.get(policy, {})}
        groups["evaluation"] = {} if evaluation is None else evaluation.values
        for family, values in groups.items():
            yield from ((family, {**of_policy, "name": name}, value) for name, value in values.items())


def _escape(text: str) -> str:
    text = text.encode(errors="backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsServer(RunObserver):
    """Answers who scrapes with the figures of the latest second.

    Args:
        run: its name.
        port: of 127.0.0.1; 0: any that is free.

    Attributes:
        port: that it listens at.

    Raises:
        OSError: it cannot be listened at the port.
    """

    def __init__(self, run: str, port: int) -> None:
        self._run = run
        self._text = "# EOF\n"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            timeout = 10
            disable_nagle_algorithm = True  # the figures follow the head at once

            def do_GET(self) -> None:
                """Answer with the figures, whatever the path."""
                body = outer._text.encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing: somebody asks every few seconds."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        logger.info("Metrics: http://127.0.0.1:%d/metrics", self.port)

    def on_status(self, status: RunStatus) -> None:
        """Keep what is told next."""
        self._text = format_metrics(self._run, status)

    def on_stop(self, runner: Runner) -> None:  # noqa: ARG002
        """Answer nobody any more."""
        self.close()

    def close(self) -> None:
        """Answer nobody any more; again, do nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
