"""Owns how many episodes are played at once: each process has an environment and a copy of the policy."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sample_profiler.component_id import EVALUATION_WORKER, ComponentId
from sample_profiler.config import Config
from sample_profiler.config.seeds import derive_seed
from sample_profiler.envs import EnvPlacement, EnvSpec, export_registration, import_registration, make_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.errors import EnvError
from sample_profiler.model.registry import export_model_parts, import_model_parts
from sample_profiler.policies import PlayedPolicies
from sample_profiler.runtime.loop.event_loop import PipeWaiter
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S
from sample_profiler.runtime.processes.child import ChildSettings, SharedMemoryNames
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import Failure, RemoteError
from sample_profiler.runtime.processes.supervisor import GRACE_AFTER_FAILURE_S, Supervisor

if TYPE_CHECKING:
    from sample_profiler.components.evaluation import Cast, PlayedEpisode, Player
    from sample_profiler.run.evaluation_worker import EvaluationWorker

__all__ = ["ManyEpisodes", "NumberedEpisode", "play_many"]

logger = logging.getLogger(__name__)

_POLL_S = 0.5


@dataclass(frozen=True)
class ManyEpisodes:
    """What is to be played.

    Attributes:
        config: of the run.
        spec: of its environment.
        played: the policies that play it.
        num_episodes: to play.
        num_workers: processes that do it, at most.
        deterministic: whether the most probable actions are taken.
        seed: of all that is drawn.
    """

    config: Config
    spec: EnvSpec
    played: PlayedPolicies
    num_episodes: int
    num_workers: int
    deterministic: bool
    seed: int

    @property
    def shares(self) -> list[int]:
        """How many episodes each worker plays, which are as even as can be."""
        num_workers = min(self.num_workers, self.num_episodes)
        share, num_with_one_more = divmod(self.num_episodes, num_workers)
        return [share + (worker < num_with_one_more) for worker in range(num_workers)]


@dataclass(frozen=True)
class NumberedEpisode:
    """An episode, and who has played it.

    Attributes:
        worker: index of the process.
        number: of the episode within the process.
        episode: what it was like.
    """

    worker: int
    number: int
    episode: PlayedEpisode


@dataclass(frozen=True)
class _Task:
    """What travels to a worker: as `ManyEpisodes`, with what is registered and numbers instead of tensors."""

    many: ManyEpisodes
    env_payload: bytes
    model_payload: dict[str, bytes]


def play_many(many: ManyEpisodes, on_episode: Callable[[NumberedEpisode], None]) -> list[NumberedEpisode]:
    """Play episodes until there are as many as were wanted.

    Each worker plays its share, whatever its episodes take: the first to end would be the short ones above all.

    Args:
        many: what is to be played.
        on_episode: is told of each, in the order in which they end.

    Returns:
        All of them, by worker and in its order.

    Raises:
        EnvError: a worker failed, hangs, or has ended.
    """
    name = many.config.run.env
    slim = {
        number: {"model": {key: tensor.numpy() for key, tensor in state["model"].items()}, "frames": state["frames"]}
        for number, state in many.played.states.items()
    }
    slim_many = replace(many, played=replace(many.played, states=slim))
    task = _Task(slim_many, export_registration(name), export_model_parts())
    with _workers(task) as workers:
        while not workers.are_done:
            ended = workers.wait()
            for episode in workers.take_episodes():
                on_episode(episode)
            workers.check(ended)
    return sorted(workers.episodes, key=lambda each: (each.worker, each.number))


@contextmanager
def _workers(task: _Task) -> Iterator[_Workers]:
    workers = _Workers(task)
    is_whole = False
    try:
        workers.spawn()
        yield workers
        is_whole = True
    finally:
        workers.end(is_whole=is_whole)


class _Workers:
    """The processes, and what they have told."""

    def __init__(self, task: _Task) -> None:
        self.episodes: list[NumberedEpisode] = []
        self._task = task
        self._shares = task.many.shares
        self._num_played = [0] * len(self._shares)
        self._supervisor = Supervisor()
        self._children: list[Child] = []
        self._last_sign_s: list[float] = []
        self._has_begun = [False] * len(self._shares)
        self._failure: Failure | None = None

    def spawn(self) -> None:
        """Start them all."""
        for index in range(len(self._shares)):
            settings = ChildSettings(
                str(ComponentId(EVALUATION_WORKER, index=index)),
                niceness=self._task.many.config.machine.default_niceness,
                num_threads=1,
                has_environments=True,
                tells_changes="all" if index == 0 else "none",
            )
            self._children.append(self._supervisor.spawn(settings, partial(_make_worker, self._task, index)))
            self._last_sign_s.append(time.monotonic())

    @property
    def are_done(self) -> bool:
        """Whether there are as many episodes as were wanted."""
        return self._num_played == self._shares

    def wait(self) -> list[int]:
        """Wait for news, for a moment at most, and return whose process has ended: what these told is there now."""
        self._supervisor.beat()
        living = [child for child in self._children if child.is_alive()]
        PipeWaiter([end for child in living for end in (child.reports, child.exit)]).wait(_POLL_S)
        return [index for index, child in enumerate(self._children) if not child.is_alive()]

    def take_episodes(self) -> list[NumberedEpisode]:
        """Take what they have told, and return the episodes in it."""
        from sample_profiler.run.evaluation_worker import EpisodePlayed

        num_known = len(self.episodes)
        for index, child in enumerate(self._children):
            for report in child.reports.receive():
                self._last_sign_s[index], self._has_begun[index] = time.monotonic(), True
                match report:
                    case EpisodePlayed():
                        self.episodes.append(NumberedEpisode(index, self._num_played[index], report.episode))
                        self._num_played[index] += 1
                    case logging.LogRecord():
                        logging.getLogger(report.name).handle(report)
                    case SharedMemoryNames():
                        self._supervisor.note_shared_memory(report)
                    case Failure() if self._failure is None:
                        self._failure = report
                    case _:  # signs of life
                        pass
        return self.episodes[num_known:]

    def check(self, ended: Sequence[int]) -> None:
        """Look whether all that are not done go on.

        Args:
            ended: whose process has ended, before `take_episodes` was called.

        Raises:
            EnvError: one does not go on.
        """
        if self._failure is not None:
            cause = RemoteError(self._failure.traceback_text) if self._failure.traceback_text else None
            raise EnvError(f"{self._failure.component} failed: {self._failure.message}") from cause
        limit_s = self._task.many.config.faults.hang_timeout
        for index, child in enumerate(self._children):
            if self._num_played[index] == self._shares[index]:
                continue
            if index in ended:
                crash = child.describe_crash()
                cause = RemoteError(crash) if crash else None
                raise EnvError(f"{child.name} has ended: its process {child.describe_exit()}") from cause
            patience_s = limit_s if self._has_begun[index] else FIRST_SIGN_S
            if time.monotonic() - self._last_sign_s[index] > patience_s:
                raise EnvError(
                    f"{child.name} hangs: it has given no sign of life for {patience_s:g} s (--hang_timeout)"
                ) from RemoteError(child.dump_stacks())

    def end(self, *, is_whole: bool) -> None:
        """Let them close their environments, or kill them where they take too long."""
        grace_s = float("inf") if is_whole else GRACE_AFTER_FAILURE_S
        for child in self._supervisor.stop(grace_s, self._drop_reports):
            logger.warning("%s did not end within its time and was killed", child.name)

    def _drop_reports(self) -> None:
        for child in self._children:
            child.reports.receive()


def _make_worker(task: _Task, index: int, reports: Reports) -> EvaluationWorker:
    import torch

    from sample_profiler.components.evaluation import cast_player
    from sample_profiler.run.evaluation_worker import EvaluationWorker

    many = task.many
    config, spec = many.config, many.spec
    import_registration(config.run.env, task.env_payload)
    import_model_parts(task.model_payload)
    seed = derive_seed(many.seed, index)

    def make_agents_env() -> AgentsEnv:
        placement = EnvPlacement(worker_index=index, vector_index=0, env_id=index)
        return AgentsEnv(partial(make_env, config.run.env, config, placement), spec, config.run.env, index, seed)

    def make_player() -> Player | Cast:
        states = {
            number: {**state, "model": {key: torch.from_numpy(array) for key, array in state["model"].items()}}
            for number, state in many.played.states.items()
        }
        played = replace(many.played, states=states)
        policies = played.restore(config, spec, seed)
        return cast_player(policies, played.roles, played.leading, deterministic=many.deterministic)

    return EvaluationWorker(
        index,
        make_agents_env,
        make_player,
        many.shares[index],
        config.environment.env_frameskip,
        BadNumbers(config.run.env, stops=config.faults.on_bad_numbers == "stop", is_training=False),
        reports,
    )
