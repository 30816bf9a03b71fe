"""The configuration of a run: all parts, and where each value came from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from sample_profiler.config.parts import (
    EnvironmentOptions,
    FaultOptions,
    LossOptions,
    MachineOptions,
    ModelOptions,
    ObservationOptions,
    OptimizerOptions,
    ProfilingOptions,
    RemoteOptions,
    RunOptions,
    SamplingOptions,
    SavingOptions,
    TrackingOptions,
    TrainingEvaluationOptions,
)

Origin = Literal["default", "family", "command line", "saved", "automatic"]
"""Where a value came from: the flag's default, the environment family's, the command line, the config.json of the run
that is resumed, or a choice that looked at the machine or at other flags."""

PartT = TypeVar("PartT")


@dataclass(frozen=True, kw_only=True)
class Config:
    """All options of a run.

    Every flag can be read from its part (``cfg.sampling.rollout``, ``cfg.part(VizdoomOptions).res_w``) or directly
    (``cfg.rollout``, ``cfg.res_w``); names of flags are unique. Where a part has the name of a flag the part wins:
    ``cfg.optimizer`` is the part, ``cfg.optimizer.optimizer`` the flag. Pickles, and is never changed.

    Attributes:
        extra_parts: Parts added by the environment family.
        origins: Where the value of each flag came from, by name.
    """

    run: RunOptions
    sampling: SamplingOptions
    loss: LossOptions
    optimizer: OptimizerOptions
    observations: ObservationOptions
    machine: MachineOptions
    tracking: TrackingOptions
    faults: FaultOptions
    profiling: ProfilingOptions
    saving: SavingOptions
    evaluation: TrainingEvaluationOptions
    model: ModelOptions
    environment: EnvironmentOptions
    remote: RemoteOptions
    extra_parts: tuple[Any, ...] = ()
    origins: dict[str, Origin] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Any, ...]:
        """All parts in order, those of the family last."""
        return tuple(getattr(self, name) for name in CORE_PARTS) + self.extra_parts

    def part(self, part_type: type[PartT]) -> PartT:
        """Return the part of the given type.

        Raises:
            KeyError: The configuration was parsed without that part.
        """
        for part in self.parts:
            if isinstance(part, part_type):
                return part
        known = ", ".join(type(part).__name__ for part in self.parts)
        raise KeyError(f"no part {part_type.__name__}; there are {known}: pass it to parse_config as an extra part")

    def values(self) -> dict[str, Any]:
        """Return the value of every flag by name."""
        return {field.name: getattr(part, field.name) for part in self.parts for field in fields(part)}

    def origin(self, flag: str) -> Origin:
        """Return where the value of a flag came from.

        Raises:
            KeyError: There is no such flag.
        """
        if flag not in self.origins:
            raise KeyError(f"no flag {flag!r}{_nearest(flag, list(self.origins))}")
        return self.origins[flag]

    def __getattr__(self, name: str) -> Any:
        """Return the value of a flag by its name alone."""
        # pickle and copy ask objects that have no parts yet for special methods; looking for parts would end up here.
        if name.startswith("__"):
            raise AttributeError(name)
        values = self.values()
        if name not in values:
            raise AttributeError(f"the configuration has no flag {name!r}{_nearest(name, list(values))}")
        return values[name]


CORE_PARTS: dict[str, type] = {
    "run": RunOptions,
    "sampling": SamplingOptions,
    "loss": LossOptions,
    "optimizer": OptimizerOptions,
    "observations": ObservationOptions,
    "machine": MachineOptions,
    "tracking": TrackingOptions,
    "faults": FaultOptions,
    "profiling": ProfilingOptions,
    "saving": SavingOptions,
    "evaluation": TrainingEvaluationOptions,
    "model": ModelOptions,
    "environment": EnvironmentOptions,
    "remote": RemoteOptions,
}
"""The parts every configuration has, by their attribute of :class:`Config`."""

RESERVED_NAMES = frozenset(
    {*CORE_PARTS, *(name for name in dir(Config) if not name.startswith("_")), "extra_parts", "origins"}
)
"""Attributes of :class:`Config`, which no flag of a family may be named after."""


def _nearest(name: str, names: list[str]) -> str:
    nearest = get_close_matches(name, names, n=1)
    return f": did you mean {nearest[0]!r}?" if nearest else ""
