"""Checks of values against each other, and the values chosen by looking at others.

What a single value may be stands with its field, as a type, limits or a rule for text; here is what spans fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any

from sample_profiler.config.conditions import parse_conditions
from sample_profiler.config.config import Origin
from sample_profiler.config.parts import is_surely_on_cpu, num_usable_cores
from sample_profiler.config.values import show_value

_FEWEST_ENVS = 2  # for double buffering
_MOST_ENVS = 32
_MOST_ENVS_OF_RUN = 1_000_000
_MOST_TRAJECTORIES = 1_000_000


@dataclass(frozen=True)
class Assigned:
    """A value and where it came from."""

    value: Any
    origin: Origin


class Assignments(dict[str, Assigned]):
    """Values of flags by name, with the wording that checks need."""

    def value(self, name: str) -> Any:
        """Return the value of a flag."""
        return self[name].value

    def show(self, name: str) -> str:
        """Return a flag as text, with its origin where the reader has not just typed it."""
        assigned = self[name]
        text = f"--{name}={show_value(assigned.value)}"
        return text if assigned.origin == "command line" else f"{text} ({assigned.origin})"


def choose_automatic(values: Assignments) -> None:
    """Replace values that stand for a choice, or have to give way, by what is chosen; in place.

    Args:
        values: A value for every flag.
    """
    if values.value("recurrence") == -1:
        chosen = values.value("rollout") if values.value("use_rnn") else 1
        values["recurrence"] = Assigned(chosen, "automatic")
    _fit_workers(values)
    if values.value("num_envs_per_worker") == -1:
        values["num_envs_per_worker"] = Assigned(_choose_num_envs(values), "automatic")
    # Double buffering needs two environments; who asks for one environment, not for two groups, is given one group.
    num_envs, num_splits = values.value("num_envs_per_worker"), values["worker_num_splits"]
    if num_splits.value > num_envs and num_splits.origin != "command line":
        values["worker_num_splits"] = Assigned(num_envs, "automatic")


def _fit_workers(values: Assignments) -> None:
    """Put the environments of a family that has more workers than there are cores into fewer workers.

    What is learned stays the same, as many environments play; but workers beyond the cores only take turns on them, and
    each of their small groups is a small batch for inference. The same number of environments in each is worth a core
    without a worker, not half of them: then all stays as it is. Who gives one of both flags gets what was given.
    """
    num_workers, num_envs = values["num_workers"], values["num_envs_per_worker"]
    num_cores = num_usable_cores()
    if {num_workers.origin, num_envs.origin} != {"family"} or num_workers.value <= num_cores:
        return
    if num_envs.value == -1:
        values["num_workers"] = Assigned(num_cores, "automatic")
    else:
        total = num_workers.value * num_envs.value
        fitting = next(number for number in range(num_cores, 0, -1) if total % number == 0)
        if 2 * fitting < num_cores:
            return
        values["num_workers"] = Assigned(fitting, "automatic")
        values["num_envs_per_worker"] = Assigned(total // fitting, "automatic")
    _fit_groups(values)


def _fit_groups(values: Assignments) -> None:
    """Make one group of each worker's environments if workers have all cores, there is no GPU and nobody said a number.

    A second group is stepped while somebody else computes the actions of the first. Where that takes the cores of the
    workers it gains nothing, and halves the batches of inference.
    """
    has_all_cores = values.value("num_workers") == num_usable_cores()
    is_free = values["worker_num_splits"].origin == "default"
    if has_all_cores and is_free and is_surely_on_cpu(values.value("device")):
        values["worker_num_splits"] = Assigned(1, "automatic")


def _choose_num_envs(values: Assignments) -> int:
    """Return how many environments each worker gets.

    With fewer, what the learner trains on next takes several rollouts of each to sample; with more, rollouts wait for
    the learner and grow old.
    """
    num_splits: int = values.value("worker_num_splits")
    if values.value("batched_sampling"):
        return num_splits  # each of them is many
    steps: int = values.value("batch_size") * values.value("num_batches_per_epoch")
    num_envs: int = -(-steps // (values.value("rollout") * values.value("num_workers")))
    return max(min(num_envs, _MOST_ENVS), _FEWEST_ENVS, num_splits)


def find_problems(values: Assignments, unusable: Set[str]) -> Iterator[str]:
    """Check values against each other.

    Args:
        values: A value for every flag, automatic ones chosen.
        unusable: Flags whose value was already found wrong; checks that need them are left out, since what they would
            find is about a value nobody gave.

    Yields:
        One message for each problem.
    """
    for needed, check in _CHECKS:
        if not any(name in unusable for name in needed):
            yield from check(values)


def _check_batch_size(values: Assignments) -> Iterator[str]:
    batch_size, rollout = values.value("batch_size"), values.value("rollout")
    if batch_size % rollout:
        fitting = max(batch_size // rollout, 1) * rollout
        yield (
            f"{values.show('batch_size')} is not a multiple of {values.show('rollout')}: a batch is made of whole "
            f"rollouts; use for example --batch_size={fitting}"
        )


def _check_size(values: Assignments) -> Iterator[str]:
    num_envs = values.value("num_workers") * values.value("num_envs_per_worker")
    if num_envs > _MOST_ENVS_OF_RUN:
        yield (
            f"{values.show('num_workers')} with {values.show('num_envs_per_worker')} makes {num_envs:,} environments; "
            f"a run has at most {_MOST_ENVS_OF_RUN:,}: use fewer of both"
        )
    num_batches = values.value("num_batches_per_epoch") * (values.value("num_batches_to_accumulate") + 1)
    num_trajectories = values.value("batch_size") * num_batches // values.value("rollout")
    if num_trajectories > _MOST_TRAJECTORIES:
        yield (
            f"{values.show('batch_size')}, {values.show('num_batches_per_epoch')} and "
            f"{values.show('num_batches_to_accumulate')} need {num_trajectories:,} trajectories of "
            f"{values.show('rollout')} steps in memory; a run has at most {_MOST_TRAJECTORIES:,}: use smaller ones"
        )


def _check_recurrence(values: Assignments) -> Iterator[str]:
    recurrence, rollout = values.value("recurrence"), values.value("rollout")
    if rollout % recurrence:
        fitting = next(length for length in range(min(recurrence, rollout), 0, -1) if rollout % length == 0)
        yield (
            f"{values.show('rollout')} is not a multiple of {values.show('recurrence')}: gradients flow through equal "
            f"pieces of a rollout; use for example --recurrence={fitting}, or -1 to have it chosen"
        )


def _check_worker_num_splits(values: Assignments) -> Iterator[str]:
    num_splits = values.value("worker_num_splits")
    if num_splits > values.value("num_envs_per_worker"):
        yield (
            f"{values.show('worker_num_splits')} is more than {values.show('num_envs_per_worker')}: each group of a "
            f"worker needs an environment; use --num_envs_per_worker={num_splits} or more, or --worker_num_splits=1"
        )


def _check_inference(values: Assignments) -> Iterator[str]:
    if values.value("inference") == "worker" and values.value("policy_workers_per_policy") != 1:
        yield (
            f"{values.show('policy_workers_per_policy')} with --inference=worker: there are no inference workers then, "
            "each rollout worker draws its own actions; leave one of the two out"
        )


def _check_timeline(values: Assignments) -> Iterator[str]:
    if values.value("timeline_seconds") and not values.value("flight_recorder_mb"):
        yield (
            f"{values.show('timeline_seconds')} with --flight_recorder_mb=0: a timeline is made of what the flight "
            "recorder holds; leave one of the two out"
        )


def _check_lr_adaptive(values: Assignments) -> Iterator[str]:
    if values.value("lr_adaptive_min") > values.value("lr_adaptive_max"):
        yield (
            f"{values.show('lr_adaptive_min')} is more than {values.show('lr_adaptive_max')}: the smallest learning "
            "rate may not exceed the largest; exchange them"
        )


def _check_heartbeat(values: Assignments) -> Iterator[str]:
    if values.value("heartbeat_reporting_interval") <= values.value("heartbeat_interval"):
        fitting = show_value(10 * values.value("heartbeat_interval"))
        yield (
            f"{values.show('heartbeat_reporting_interval')} is not more than {values.show('heartbeat_interval')}: "
            f"every component would be reported as stuck; use for example --heartbeat_reporting_interval={fitting}"
        )


def _check_hang_timeout(values: Assignments) -> Iterator[str]:
    if values.value("hang_timeout") <= values.value("heartbeat_interval"):
        fitting = show_value(10 * values.value("heartbeat_interval"))
        yield (
            f"{values.show('hang_timeout')} is not more than {values.show('heartbeat_interval')}: every component "
            f"would count as lost; use for example --hang_timeout={fitting}"
        )


def _check_stop_at(values: Assignments) -> Iterator[str]:
    yield from _find_unknown_policies(values, "stop_at")


def _check_thresholds(values: Assignments) -> Iterator[str]:
    yield from _find_unknown_policies(values, "thresholds")


def _find_unknown_policies(values: Assignments, name: str) -> Iterator[str]:
    num_policies: int = values.value("num_policies")
    for condition in parse_conditions(values.value(name)):
        if condition.policy is not None and condition.policy >= num_policies:
            yield (
                f"{values.show(name)} asks for policy {condition.policy}, and with {values.show('num_policies')} the "
                f"last one is {num_policies - 1}: policies are numbered from 0"
            )


_CHECKS: tuple[tuple[tuple[str, ...], Callable[[Assignments], Iterator[str]]], ...] = (
    (("batch_size", "rollout"), _check_batch_size),
    (
        (
            *("num_workers", "num_envs_per_worker", "batch_size", "num_batches_per_epoch", "rollout"),
            "num_batches_to_accumulate",
        ),
        _check_size,
    ),
    (("rollout", "recurrence"), _check_recurrence),
    (("worker_num_splits", "num_envs_per_worker"), _check_worker_num_splits),
    (("timeline_seconds", "flight_recorder_mb"), _check_timeline),
    (("inference", "policy_workers_per_policy"), _check_inference),
    (("lr_adaptive_min", "lr_adaptive_max"), _check_lr_adaptive),
    (("heartbeat_interval", "heartbeat_reporting_interval"), _check_heartbeat),
    (("heartbeat_interval", "hang_timeout"), _check_hang_timeout),
    (("stop_at", "num_policies"), _check_stop_at),
    (("thresholds", "num_policies"), _check_thresholds),
)
"""Each check with the flags it needs."""
