"""Makes a component of the user's own in the process where it runs, and says what that is like."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sample_profiler.errors import ConfigError
from sample_profiler.portable import pack_by_value
from sample_profiler.profiling import Timing
from sample_profiler.run.extensions.component import RunComponent, name_of
from sample_profiler.run.extensions.host import ComponentHost
from sample_profiler.run.extensions.mailboxes import Mail
from sample_profiler.run.extensions.run_access import RunAccess
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.run.layout.topology import ComponentPlan, child_settings
from sample_profiler.runtime.messages.channels import Reports

__all__ = ["check_portable", "plan_own_component"]


class _Parcel:
    """A component on its way to another process, where it is unpacked when it is made; in this one it is what it is."""

    def __init__(self, component: RunComponent) -> None:
        self.unpack: Callable[[], Any] = lambda: component
        self._component = component

    def __reduce__(self) -> tuple[Any, ...]:
        return _Packed, (_pack(self._component),)


class _Packed:
    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def unpack(self) -> Any:
        return pickle.loads(self._payload)


def check_portable(components: Sequence[RunComponent]) -> None:
    """See to it that components can travel to processes of their own, before anything is made.

    Raises:
        ConfigError: with what cannot.
    """
    for component in components:
        _pack(component)


def plan_own_component(
    blueprint: Blueprint, component: RunComponent, name: str, index: int, mail: Mail
) -> ComponentPlan:
    """Return a component of the user's own as a run needs it.

    Args:
        blueprint: of the run.
        component: the user's object.
        name: of the component.
        index: among all of the user's own.
        mail: what it is to be told.
    """
    settings = replace(child_settings(blueprint, name, num_threads=1), has_environments=True)
    return ComponentPlan(settings, partial(_make_own_component, blueprint, _Parcel(component), name, index, mail))


def _make_own_component(
    blueprint: Blueprint, parcel: _Parcel | _Packed, name: str, index: int, mail: Mail, reports: Reports
) -> ComponentHost:
    timing = Timing(f"{name} profile")
    access = RunAccess(name, index, blueprint, reports)
    return ComponentHost(parcel.unpack(), name, timing, access, mail, reports)


def _pack(component: RunComponent) -> bytes:
    try:
        return pack_by_value(component)
    except Exception as error:  # whatever an object's own pickling code may raise
        raise ConfigError(
            [
                f"the component {name_of(component)} cannot be sent to a process of its own: {type(error).__name__}: "
                f"{error}: make what cannot be pickled in its on_start(), or use --serial_mode=True"
            ]
        ) from error
