"""Owns the signals of a run: what happens in it, by name and type, and who is told of it.

A signal is a message that a component reports, told to whoever has connected to it. What nobody has connected to costs
nothing: most of these messages are reported anyway, and of the others Learners learn before they start whether anybody
wants them.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from sample_profiler.component_id import EVALUATOR, LEARNER, ROLLOUT_WORKER, RUNNER, ComponentId
from sample_profiler.components.messages import (
    CheckpointSaved,
    EpisodesFinished,
    EvaluationFinished,
    Started,
    Stopped,
    Stopping,
    TrainingStep,
    WeightsPublished,
)
from sample_profiler.run.records.statistics import RunStatus

__all__ = ["HasSignals", "Signal", "Signals", "Switchboard", "takes_arguments"]

Payload = TypeVar("Payload")
Slot = Callable[[Any], None]

_OF_EVERYBODY = ("started", "stopping", "stopped")
_OF_KIND = {
    EVALUATOR: ("evaluation_finished",),
    LEARNER: ("training_step", "weights_published", "checkpoint_saved"),
    ROLLOUT_WORKER: ("episodes_finished",),
}


def takes_arguments(function: object, num_arguments: int) -> bool:
    """Tell whether something can be called with so many positional arguments, as far as that can be seen."""
    if not callable(function):
        return False
    try:
        # Not of what it wraps: a decorator may add arguments of its own.
        signature = inspect.signature(function, follow_wrapped=False)
    except Exception:  # nothing is known of some functions in C, and annotations that are evaluated may raise anything
        return True
    try:
        signature.bind(*range(num_arguments))
    except TypeError:
        return False
    return True


class Signal(Generic[Payload]):
    """Something that happens in a run again and again; slots that are connected to it are called each time.

    Args:
        name: of it.
        payload: class of what slots are called with.
        sender: whose signal it is; the Runner's tells of all components.
        connect: connects a slot to it.

    Attributes:
        name: as given.
        payload: as given.
        sender: as given.
    """

    def __init__(
        self, name: str, payload: type[Payload], sender: str, connect: Callable[[Signal[Any], Slot], None]
    ) -> None:
        self.name = name
        self.payload = payload
        self.sender = sender
        self._connect = connect

    def connect(self, slot: Callable[[Payload], None]) -> None:
        """Have a function called with each payload from now on.

        Where it is called depends on whose it is: a method of a component of one's own in the process of that one, all
        others in the Runner's, as message handlers are. Nobody waits for it. Up to 10,000 payloads wait for a slot of
        the Runner's process, or for the slots of one component; of more, the oldest is dropped, and the log says how
        many were.

        Args:
            slot: called with the payload alone.

        Raises:
            TypeError: it cannot be called with a payload.
            ValueError: the sender has no such signal, the slot is of a component that the run does not have, or the
                components have started: connect in `on_connect_components`.
        """
        self._connect(self, slot)


class Signals:
    """The signals of a component; those of the Runner are of all components.

    Attributes:
        started: the component has begun to work.
        episodes_finished: episodes have ended at a RolloutWorker, told once a second.
        training_step: a Learner has trained on another dataset.
        weights_published: a Learner has published weights.
        checkpoint_saved: a Learner has written a checkpoint.
        evaluation_finished: a policy has played some episodes, apart from training.
        summaries: figures for TensorBoard are due, each `--experiment_summaries_interval` seconds and once at the end;
            of the Runner alone.
        stopping: the run is about to end.
        stopped: the component has let go of everything, or is lost. Only slots of the Runner's process hear this of the
            end of a run: components of one's own end with all others.
    """

    def __init__(self, sender: str, connect: Callable[[Signal[Any], Slot], None]) -> None:
        self.started = Signal("started", Started, sender, connect)
        self.episodes_finished = Signal("episodes_finished", EpisodesFinished, sender, connect)
        self.training_step = Signal("training_step", TrainingStep, sender, connect)
        self.weights_published = Signal("weights_published", WeightsPublished, sender, connect)
        self.checkpoint_saved = Signal("checkpoint_saved", CheckpointSaved, sender, connect)
        self.evaluation_finished = Signal("evaluation_finished", EvaluationFinished, sender, connect)
        self.summaries = Signal("summaries", RunStatus, sender, connect)
        self.stopping = Signal("stopping", Stopping, sender, connect)
        self.stopped = Signal("stopped", Stopped, sender, connect)

    if not TYPE_CHECKING:  # a type checker finds by itself what does not exist

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"there is no signal {name!r}; there are {', '.join(vars(self))}", name=name, obj=self)


class Switchboard:
    """Who is connected to which signal of a run.

    Args:
        names: of all components but the Runner.
        own: those of them that are the user's own.
        make_call: makes, of a signal and a slot, what is called with each payload, in this process.

    Attributes:
        is_open: whether slots can still be connected.
    """

    def __init__(
        self, names: Sequence[str], own: Sequence[str], make_call: Callable[[Signal[Any], Slot], Slot]
    ) -> None:
        self._names = list(names)
        self._own = frozenset(own)
        self._make_call = make_call
        self._calls: defaultdict[type, list[tuple[str, Slot]]] = defaultdict(list)
        self.is_open = True

    @property
    def told(self) -> frozenset[type]:
        """Messages that somebody wants to be told of."""
        return frozenset(self._calls)

    def signals_of(self, component: str) -> Signals:
        """Return the signals of a component.

        Raises:
            ValueError: the run has no such component.
        """
        if component not in (RUNNER, *self._names):
            names = ", ".join((RUNNER, *self._names))
            raise ValueError(f"there is no component {component!r:.100}; the run has {names}")
        return Signals(component, self._connect)

    def emit(self, payload: Any) -> None:
        """Tell all who are connected to the signal of this type, and to its sender or all senders."""
        for sender, call in self._calls.get(type(payload), ()):
            if not sender or sender == payload.component:
                call(payload)

    def _connect(self, signal: Signal[Any], slot: Slot) -> None:
        if not takes_arguments(slot, 1):
            raise TypeError(f"the slot of {signal.name} is {slot!r:.200}: give a function(payload), or a bound method")
        if not self.is_open:
            raise ValueError(
                f"{signal.name}: the components have started, and slots are connected before that: in "
                "on_connect_components"
            )
        names = self._names_of_signals(signal.sender)
        if signal.name not in names:
            raise ValueError(f"{signal.sender} has no signal {signal.name}; it has {', '.join(names)}")
        tells_of_all = signal.sender == RUNNER and signal.name not in _OF_EVERYBODY
        self._calls[signal.payload].append(("" if tells_of_all else signal.sender, self._make_call(signal, slot)))

    def _names_of_signals(self, sender: str) -> tuple[str, ...]:
        if sender == RUNNER:
            return (*_OF_EVERYBODY, *(name for names in _OF_KIND.values() for name in names), "summaries")
        if sender in self._own:
            return (*_OF_EVERYBODY, "evaluation_finished")
        return (*_OF_EVERYBODY, *_OF_KIND.get(ComponentId.parse(sender).kind, ()))


class HasSignals:
    """Whoever tells of a run by signals, as the Runner.

    Attributes:
        switchboard: who is connected to which signal.
    """

    switchboard: Switchboard

    @property
    def signals(self) -> Signals:
        """The signals of the Runner: of what happens in the whole run."""
        return self.switchboard.signals_of(RUNNER)

    def component(self, name: str) -> Signals:
        """Return the signals of one component, such as "Learner_0".

        Raises:
            ValueError: the run has no such component.
        """
        return self.switchboard.signals_of(name)
