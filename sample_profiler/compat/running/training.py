"""Owns how Sample Factory's code trains: `run_rl`, and a Runner that is made first and run later."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NoReturn

from sample_profiler.cli.train import train
from sample_profiler.compat.networks.factory import global_model_factory
from sample_profiler.compat.running.observers import EPISODIC, AlgoObserver, ObserverOfAll
from sample_profiler.compat.running.statuses import ExperimentStatus, status_of_exit
from sample_profiler.compat.running.summaries import Summaries
from sample_profiler.compat.serving.place import come_first
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import program_of
from sample_profiler.compat.settings.saved import cfg_dict, maybe_load_from_checkpoint
from sample_profiler.config import parse_run_config
from sample_profiler.errors import ConfigError, UsageError

__all__ = ["Runner", "make_runner", "run_rl"]

logger = logging.getLogger(__name__)

_PATIENCE_S = 1800.0


class _Handlers(dict[str, list[Callable[..., None]]]):
    """Functions by the key of the messages that they are called with."""

    def __missing__(self, key: str) -> NoReturn:
        raise UsageError(f"there are no messages {key!r} of policies: only those of episodes ({EPISODIC!r}) are served")


class Runner:
    """A run, before it is started and while it goes on, as Sample Factory's observers know it.

    Args:
        cfg: Its options, as they are: of a run that is resumed, those of the command line and the saved ones.

    Attributes:
        cfg: As above.
        env_steps: By policy: frames trained on.
        policy_avg_stats: By name: of each policy, the latest episodes' figures.
        policy_lag: Of each policy: `version_diff_min`, `version_diff_avg` and `version_diff_max`.
        writers: By policy: what its summaries are written with, at any time.
        policy_msg_handlers: By key: functions that are called with messages of policies; there are those of episodes.
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.cfg = cfg if isinstance(cfg, AttrDict) else cfg_dict(cfg)
        self.env_steps: dict[int, int] = {}
        self.policy_avg_stats: dict[str, list[deque[float]]] = {}
        self.policy_lag: list[dict[str, float]] = [{} for _ in range(self.cfg.num_policies)]
        self.writers = {policy: Summaries() for policy in range(self.cfg.num_policies)}
        self.status = ExperimentStatus.SUCCESS
        self._observers: list[AlgoObserver] = []
        self._handlers: list[Callable[..., None]] = []
        self.policy_msg_handlers = _Handlers({EPISODIC: self._handlers})

    @cached_property
    def env_info(self) -> Any:
        """What is known of the environment, as `EnvInfo`; it is made for that in a process of its own."""
        from sample_profiler.compat.environments.batched import obtain_env_info_in_a_separate_process

        return obtain_env_info_in_a_separate_process(self.cfg)

    def register_observer(self, observer: AlgoObserver) -> None:
        """Have somebody told how the run goes."""
        self._observers.append(observer)

    def register_episodic_stats_handler(self, func: Callable[..., None]) -> None:
        """Have a function called with each finished episode, as `func(runner, message, policy_id)`."""
        self._handlers.append(func)

    def register_policy_msg_handler(self, key: str, func: Callable[..., None]) -> None:
        """Have a function called with messages of a policy.

        Raises:
            UsageError: There are no such messages here.
        """
        self.policy_msg_handlers[key].append(func)

    def register_msg_handler(self, key: str, func: Callable[..., None]) -> None:
        """Refuse: messages of components are classes here.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            f"register_msg_handler({key!r}, {func!r:.100}) is not served: see RunObserver and register_message_handler "
            "of sample_profiler"
        )

    def init(self) -> int:
        """Look whether the run can be started.

        Returns:
            As of :class:`ExperimentStatus`.
        """
        try:
            program = program_of(self.cfg)
            parse_run_config(program.argv, extra_parts=program.extra_parts, defaults=program.defaults)
            global_model_factory().check(self.cfg)
        except ConfigError as error:
            logger.error("%s", error)
            self.status = ExperimentStatus.FAILURE
        return self.status

    def run(self) -> int:
        """Train until the run ends.

        Returns:
            As of :class:`ExperimentStatus`.
        """
        if self.init() != ExperimentStatus.SUCCESS:
            return self.status
        come_first()
        program = program_of(self.cfg)
        watcher = ObserverOfAll(self, self._observers, self._handlers)
        # There observers may play whole evaluations in the Runner's process, for which nobody is in a hurry.
        patient = {"hang_timeout": _PATIENCE_S} if self._observers else {}
        defaults = {**patient, **(program.defaults or {})}
        exit_status = train(program.argv, extra_parts=program.extra_parts, defaults=defaults, observers=[watcher])
        self.status = status_of_exit(exit_status)
        return self.status


def make_runner(cfg: Mapping[str, Any]) -> tuple[AttrDict, Runner]:
    """Make a run that can be watched: register observers, then `init` and `run` it.

    Args:
        cfg: Options, from `parse_full_cfg`.

    Returns:
        The run's options, with those of the run that it resumes, and the run.
    """
    cfg = cfg_dict(cfg)
    merged = maybe_load_from_checkpoint(cfg) if cfg.get("restart_behavior", "resume") == "resume" else cfg
    return merged, Runner(merged)


def run_rl(cfg: Mapping[str, Any]) -> int:
    """Train as options say.

    Args:
        cfg: Options, from `parse_full_cfg`.

    Returns:
        As of :class:`ExperimentStatus`.
    """
    return make_runner(cfg)[1].run()
