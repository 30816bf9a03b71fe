"""Owns which settings of a run can be tried, and which of them change what is learned.

How many environments there are, how long their trajectories, how large the batches and how many of them wait decides
what the Learner is trained on, and how old that is. Into how many processes the environments go, who draws actions
where, and how messages travel decides only how soon. bfloat16 rounds: what is learned with it is as good, and not the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

__all__ = ["Base", "Setting", "first_settings", "flags_of", "neighbours", "num_processes"]

Setting = tuple[tuple[str, Any], ...]
"""Flags whose values differ from those of the command, with these, by name; empty: none do."""

_PLACES = {"num_workers", "num_envs_per_worker", "worker_num_splits"}
_SPLITS = (1, 2)
_MORE_SPLITS = (1, 2, 4)
_WORKERS_PER_CORE = 2
_WAITING_WORKERS_PER_CORE = 32
_MOST_WORKERS = 64
_FACTORS = (2.0, 0.5, 4.0)
"""Of the number of environments, where it may be changed."""


@dataclass(frozen=True)
class Base:
    """What the command itself sets.

    Attributes:
        flags: all of its values by name.
        num_cores: that its processes may use.
        envs_wait: whether its environments spend their time asleep: then there may be many more workers than cores.
        may_change_learning: whether settings are tried, too, that change what is learned.
    """

    flags: Mapping[str, Any]
    num_cores: int
    envs_wait: bool = False
    may_change_learning: bool = False

    @property
    def num_envs(self) -> int:
        """Environments in all."""
        return int(self.flags["num_workers"]) * int(self.flags["num_envs_per_worker"])

    def value(self, setting: Setting, name: str) -> Any:
        """Return what a flag is in a setting."""
        return dict(setting).get(name, self.flags.get(name))

    def changed(self, setting: Setting, **values: Any) -> Setting:
        """Return a setting with other values of some flags; those of the command itself are left out.

        But a setting that says anything of where environments go says all of it: a run chooses what is not said by the
        rest.
        """
        new = dict(setting) | values
        named = {name for name, value in new.items() if value != self.flags.get(name)}
        if named & _PLACES:
            named |= _PLACES
        return tuple(sorted((name, new.get(name, self.flags.get(name))) for name in named))


def flags_of(setting: Setting) -> list[str]:
    """Return a setting as words of a command line."""
    return [f"--{name}={value}" for name, value in setting]


def num_processes(base: Base, setting: Setting) -> int:
    """Return how many processes sample in a setting: what there could be less of."""
    inference = 0
    if base.value(setting, "inference") == "process":
        inference = base.value(setting, "num_policies") * base.value(setting, "policy_workers_per_policy")
    return int(base.value(setting, "num_workers")) + int(inference)


def first_settings(base: Base, hints: Sequence[Mapping[str, Any]] = ()) -> list[Setting]:
    """Return what is tried first: workers, groups and where actions are drawn, together; the likeliest first.

    Args:
        base: what the command sets.
        hints: flags that a verdict advises, the best first.
    """
    found: dict[Setting, int] = {}
    nums_of_workers = _nums_of_workers(base, base.num_envs)
    for num_workers, splits, inference in product(nums_of_workers, _SPLITS, ("process", "worker")):
        setting = _placed(base, (), base.num_envs, num_workers, splits)
        if setting is not None:
            setting = base.changed(setting, inference=inference)
            found[setting] = len(setting)
    found.pop((), None)
    advised = [base.changed((), **hint) for hint in hints]
    likely = [setting for hint in advised for setting in found if hint and set(hint) <= set(setting)]
    return list(dict.fromkeys([*sorted(likely, key=len), *sorted(found, key=lambda each: _distance(base, each))]))


def neighbours(base: Base, setting: Setting) -> Iterator[Setting]:
    """Yield settings that differ from one in one thing; the likeliest first."""
    num_envs = int(base.value(setting, "num_workers")) * int(base.value(setting, "num_envs_per_worker"))
    num_workers, splits = base.value(setting, "num_workers"), base.value(setting, "worker_num_splits")
    placed = [(num_envs, each, splits) for each in _beside(_nums_of_workers(base, num_envs), num_workers)]
    placed += [(num_envs, num_workers, each) for each in _MORE_SPLITS]
    if base.may_change_learning:
        placed += [(round(num_envs * factor), num_workers, splits) for factor in _FACTORS]
    changes: list[dict[str, Any]] = [
        {"transport": "fifo"},
        {"policy_workers_per_policy": 2},
        {"force_envs_single_thread": True},
        {"set_workers_cpu_affinity": not base.value(setting, "set_workers_cpu_affinity")},
    ]
    if base.value(setting, "inference") == "worker":
        changes = [change for change in changes if "policy_workers_per_policy" not in change]
    if base.may_change_learning:
        changes.insert(0, {"precision": "bf16"})
        changes += [{"num_batches_to_accumulate": number} for number in (1, 2, 4)]
    moved = [each for where in placed if (each := _placed(base, setting, *where)) is not None]
    for each in dict.fromkeys([*moved, *(base.changed(setting, **change) for change in changes)]):
        if each != setting:
            yield each


def _placed(base: Base, setting: Setting, num_envs: int, num_workers: int, splits: int) -> Setting | None:
    """Return a setting with these environments in so many workers and groups; None: they do not go in evenly."""
    if num_workers < 1 or num_envs % num_workers or splits > num_envs // num_workers:
        return None
    placed = {"num_workers": num_workers, "num_envs_per_worker": num_envs // num_workers, "worker_num_splits": splits}
    return base.changed(setting, **placed)


def _nums_of_workers(base: Base, num_envs: int) -> list[int]:
    per_core = _WAITING_WORKERS_PER_CORE if base.envs_wait else _WORKERS_PER_CORE
    most = min(_MOST_WORKERS, max(base.num_cores * per_core, int(base.flags["num_workers"])))
    return [number for number in range(1, most + 1) if num_envs % number == 0]


def _beside(numbers: Sequence[int], number: int) -> list[int]:
    """Return those next to a number, on either side."""
    return [*[each for each in numbers if each < number][-1:], *[each for each in numbers if each > number][:1]]


def _distance(base: Base, setting: Setting) -> tuple[float, int]:
    """Return how unlikely a setting is to be good: far from as many workers as cores, or environments if they wait."""
    num_workers = int(base.value(setting, "num_workers"))
    aim = base.num_envs if base.envs_wait else base.num_cores
    return max(num_workers / aim, aim / num_workers), len(setting)
