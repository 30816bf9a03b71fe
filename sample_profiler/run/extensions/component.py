"""Owns the class that components of one's own are derived from, and what is wrong with those that are handed over."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sample_profiler.component_id import (
    BATCHER,
    EVALUATION_WORKER,
    EVALUATOR,
    INFERENCE_WORKER,
    LEARNER,
    ROLLOUT_WORKER,
    RUNNER,
)

if TYPE_CHECKING:
    from sample_profiler.run.extensions.run_access import RunAccess
    from sample_profiler.run.extensions.signals import HasSignals

__all__ = ["RunComponent", "check_components", "name_of"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_TAKEN = (BATCHER, EVALUATION_WORKER, EVALUATOR, INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER, RUNNER)
_OF_PROCESSES = ("Serial", "timers")  # what record files and trees of something else are called


class RunComponent:
    """A component of one's own: runs beside the others of a run, in a process of its own; override what is of interest.

    Derive a class from this one, and hand instances of it to `train(components=[…])`. The instance travels to its
    process when the run begins: what cannot travel, or is large, such as networks, files and sockets, is made in
    `on_start`. In serial mode there is one process, and the component has its turns in the loop of all others.

    It is a component as the others are: it has a Timing, which `get_timing()` returns while it has its turn, and its
    tree in the log at the end, also if it is killed; it is in accounts, `status`, captures, timelines and record files;
    it gives signs of life between two turns, and one that gives none for `--hang_timeout` is ended.

    All methods but `on_connect_components` are called in its own process, one at a time. Whatever takes longer than a
    few seconds in one piece calls `self.run.beat()` now and then.

    Attributes:
        name: in logs, trees and commands; "": that of its class.
        may_be_lost: whether the run goes on without it when it raises, hangs or is killed. Else that ends the run.
    """

    name: str = ""
    may_be_lost: bool = False
    _run: RunAccess | None = None

    @property
    def run(self) -> RunAccess:
        """What it may see of the run, and ask of it; from `on_start` on.

        Raises:
            RuntimeError: it is not in its process yet.
        """
        if self._run is None:
            raise RuntimeError(f"{name_of(self)} asks for its run before on_start(): there is none yet")
        return self._run

    def on_connect_components(self, runner: HasSignals) -> None:
        """Connect slots to signals, in the Runner's process, before any component is started.

        A bound method of this object is called in the process of the component::

            runner.signals.episodes_finished.connect(self.on_episodes)

        Args:
            runner: of the run, of which there are only the signals yet.
        """

    def on_start(self) -> None:
        """Make what it needs, in its own process; called once."""

    def timers(self) -> Sequence[tuple[float, Callable[[], None]]]:
        """Return what it does at intervals: seconds, and a function; asked once, before `on_start`."""
        return ()

    def gauges(self) -> dict[str, float]:
        """Return what it can measure of itself at any time, by name; asked each second, after `on_start`."""
        return {}

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Return methods that observers may call while the run goes on (`runner.call`), by name."""
        return {}

    def on_stop(self) -> None:
        """Let go of everything; called once when the run ends, also after a failure.

        Not where `on_start` has raised, or the process is killed.
        """


def name_of(component: RunComponent) -> str:
    """Return the name under which the run has a component."""
    return component.name or type(component).__name__


def check_components(components: Iterable[RunComponent]) -> tuple[RunComponent, ...]:
    """Return the components that a script adds to its run.

    Raises:
        TypeError: one of them is none, such as a class instead of an instance of it.
        ValueError: their names cannot be used.
    """
    if isinstance(components, RunComponent):
        raise TypeError("components are given as a list: components=[…]")
    checked = tuple(components)
    for component in checked:
        if isinstance(component, type) and issubclass(component, RunComponent):
            raise TypeError(f"the component {component.__name__} is a class: give an instance, {component.__name__}()")
        if not isinstance(component, RunComponent):
            raise TypeError(
                f"{component!r:.200} is no component: derive its class from RunComponent and give an instance"
            )
        _check_name(name_of(component))
    for name, number in Counter(map(name_of, checked)).items():
        if number > 1:
            raise ValueError(f"{number} components are called {name}: set the attribute `name` of each")
    return checked


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"a component cannot be called {name!r:.100}: a name has up to 40 letters, digits, `_` and `-`, and begins "
            "with a letter; set its attribute `name`"
        )
    if name.startswith(_TAKEN) or name in _OF_PROCESSES:
        raise ValueError(
            f"a component of one's own cannot be called {name}: it may not begin with {', '.join(_TAKEN)}, nor be "
            f"{' or '.join(_OF_PROCESSES)}; set its attribute `name`"
        )
