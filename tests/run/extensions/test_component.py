"""What is no component of one's own, or cannot be called what it is called, is refused with the cure."""

from __future__ import annotations

import threading

import pytest

from sample_profiler.errors import ConfigError
from sample_profiler.run.extensions.component import RunComponent, check_components
from sample_profiler.run.extensions.own_components import check_portable


class Mine(RunComponent):
    def __init__(self, name="", held=None):
        self.name, self.held = name, held


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        (Mine(), TypeError, "components are given as a list"),
        ([Mine], TypeError, r"the component Mine is a class: give an instance, Mine\(\)"),
        ([object()], TypeError, "is no component: derive its class from RunComponent"),
        ([Mine(), Mine()], ValueError, "2 components are called Mine: set the attribute `name` of each"),
        ([Mine("a/b")], ValueError, "cannot be called 'a/b': a name has up to 40 letters"),
        ([Mine(7)], ValueError, "cannot be called 7: a name has up to 40 letters"),
        ([Mine("x" * 41)], ValueError, "a name has up to 40 letters"),
        *(
            ([Mine(name)], ValueError, f"cannot be called {name}: it may not begin with")
            for name in ("Evaluator", "EvaluationWorker_0", "Runner", "RolloutWorker_w0", "LearnerLog", "timers")
        ),
    ],
)
def test_what_is_no_component_is_refused(components, error, message):
    with pytest.raises(error, match=message):
        check_components(components)


def test_components_of_one_class_have_names_of_their_own():
    components = [Mine("first"), Mine("second"), Mine()]
    assert check_components(components) == tuple(components)


def test_what_cannot_travel_is_named_before_anything_is_made():
    check_portable([Mine(held=lambda: 1)])
    with pytest.raises(ConfigError, match=r"Mine cannot be sent to a process of its own: TypeError.*on_start"):
        check_portable([Mine(held=threading.Lock())])


def test_there_is_no_run_before_it_is_started():
    with pytest.raises(RuntimeError, match=r"Mine asks for its run before on_start\(\)"):
        Mine().run  # noqa: B018
