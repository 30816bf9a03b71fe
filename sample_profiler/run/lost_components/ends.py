"""Owns which components of a run have ended, and how: in order, by failing, or in no way that anybody has told of."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from sample_profiler.component_id import LEARNER, ComponentId
from sample_profiler.components.messages import Counters
from sample_profiler.run.commands.selection import name_some
from sample_profiler.runtime.processes.failure import Failure

__all__ = ["ComponentEnds"]

logger = logging.getLogger(__name__)


class ComponentEnds:
    """What is known of the ends of a run's components.

    Args:
        counters: that the components share.
        fail: ends the run because of a failure.
        note_end: is told of each component that did not end in order, and what became of it instead.
    """

    def __init__(
        self, counters: Counters, fail: Callable[[Failure], None], note_end: Callable[[str, str], None]
    ) -> None:
        self._counters = counters
        self._fail = fail
        self._note_end = note_end
        self._finished: set[str] = set()
        self._failed: set[str] = set()

    @property
    def has_failures(self) -> bool:
        """Whether a component is known to have failed."""
        return bool(self._failed)

    def note_finished(self, component: str) -> None:
        """Take in that a component has finished."""
        self._finished.add(component)

    def note_failed(self, components: Iterable[str]) -> None:
        """Take in that components have failed."""
        self._failed.update(components)

    def note_successor(self, component: str) -> None:
        """Take in that another one has taken the place of a component: if the lost one has finished, this has not."""
        self._finished.discard(component)

    def knows(self, component: str) -> bool:
        """Tell whether a component has finished, or is known to have failed."""
        return component in self._finished or component in self._failed

    def miss(self, missed: Mapping[str, str]) -> None:
        """Tell of components that did not end in order; what is lost with a Learner fails the run.

        With others nothing is lost that the end of the run would have kept: trajectories that nobody trains on any
        more, the statistics of a second.

        Args:
            missed: what became of each instead, by its name.
        """
        told: defaultdict[str, list[str]] = defaultdict(list)
        for component, message in missed.items():
            self._note_end(component, message)
            which = ComponentId.parse(component)
            has_learned = which.kind == LEARNER and bool(self._counters.training_iterations[which.policy])
            if has_learned and component not in self._finished:
                lost = "; what it had learned since its last checkpoint is lost"
                self._fail(Failure(component, message + lost, ""))
            else:
                told[message].append(component)
        for message, components in told.items():  # many that share a fate share a line
            logger.warning("%s%s: %s", name_some(components), ", each" if len(components) > 1 else "", message)
