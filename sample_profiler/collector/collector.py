"""The Collector: the sampling side of a run without its Learner, for people with a training loop of their own."""

from __future__ import annotations

import atexit
import logging
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from sample_profiler.collector.backends import CollectorBackend
from sample_profiler.collector.batch import Batch
from sample_profiler.collector.layout import lay_out, make_local_backend
from sample_profiler.collector.ray_backend import RayBackend
from sample_profiler.component_id import ROLLOUT_WORKER, ComponentId
from sample_profiler.components.messages import EpisodeStatistics
from sample_profiler.config import Config, parse_run_config
from sample_profiler.errors import CommandError, ConfigError
from sample_profiler.model import PolicyNetwork
from sample_profiler.profiling.captures.rollouts.captures import PostCollectHook
from sample_profiler.profiling.ranges import set_profiling_enabled
from sample_profiler.run.checks.machine import allow_processes
from sample_profiler.run.checks.spaces import check_spaces
from sample_profiler.run.commands.rollout_captures import ANSWER_S, CapturesRollouts
from sample_profiler.run.env_probe import probe_env
from sample_profiler.run.layout.blueprint import Blueprint, frames_per_step
from sample_profiler.run.layout.factories import make_model
from sample_profiler.runtime.machine.ray_cluster import import_ray
from sample_profiler.runtime.processes.main_module import check_main_module

__all__ = ["Collector"]

logger = logging.getLogger(__name__)


class Collector(CapturesRollouts):
    """Samples trajectories with the rollout and inference workers of a run; the caller trains.

    ::

        register_gym_envs()  # of sample_profiler.envs.gymnasium_ids; or your own by `register_env`
        with Collector(["--env=CartPole-v1", "--num_workers=2"]) as collector:
            for batch in collector:
                loss = compute_loss(collector.policy, batch)
                ...
                collector.update_policy_weights_()

    A batch is a dict of tensors on the processor that stay as they are. `[trajectories, steps, ...]`: `observations` (a
    dict by key of the observation space), `states` (recurrent, `[…, state size]`), `actions` (`[…, width]`, in the type
    of the action space), `action_parameters` (`[…, number]`), `log_probabilities`, `values` (as the network gives
    them), `rewards`, `final_values` (of the final observation where an episode was truncated before the last step,
    whatever ``--value_bootstrap``), all float32; `policy_versions` (int64); and bool `terminated`, `truncated`,
    `starts_episode`, and `valid` (to be trained on: not older than ``--max_policy_lag`` versions, not of an inactive
    agent, and not touched by numbers that were not finite). `[trajectories, ...]`: `last_observations` and
    `last_states`, which follow the last step, and `workers` (int64), who sampled it. There are ``--batch_size`` ×
    ``--num_batches_per_epoch`` steps in it.

    With ``--async_rl=False`` sampling waits while the caller has a batch, so the next one is all of the weights that
    were published before it was asked for, if it has at least as many trajectories as there are agents; otherwise
    workers go on meanwhile, as far as their memory reaches.
    Iteration ends after ``--train_for_env_steps`` frames. Workers begin to sample when the first batch is asked for.

    Args:
        cfg: what `parse_run_config` returns, or flags as on a command line; ``--serial_mode=True`` runs all workers in
            this process, otherwise each has one of its own; ``--backend=ray`` has them in actors of Ray.
        policy: whose weights are used; None makes the network of the configuration.

    Attributes:
        config: of the run.
        policy: the network whose weights `update_policy_weights_` publishes.
        policy_version: how often it has done so.
        num_workers: number of rollout workers, those of all actors together, of which there may be more later.

    Raises:
        ConfigError: options that cannot be used, among them more than one policy.
        EnvError: the environment cannot be used.
        ValueError: `policy` is not a network as the configuration describes it.
    """

    def __init__(self, cfg: Config | Sequence[str], policy: PolicyNetwork | None = None) -> None:
        self.config = config = cfg if isinstance(cfg, Config) else parse_run_config(list(cfg))
        if config.sampling.num_policies != 1:
            problem = f"--num_policies={config.sampling.num_policies}: a Collector samples for one policy: use 1"
            raise ConfigError([problem])
        is_remote = config.remote.backend == "ray"
        if is_remote:
            import_ray()  # before anything is made, and an environment tried
        elif not config.sampling.serial_mode:
            check_main_module()
        env_spec = probe_env(config)
        check_spaces(config, env_spec)
        if not is_remote:
            allow_processes(config)
        blueprint = lay_out(config, env_spec)
        self.policy_version = 0
        self._run_folder = config.run.folder
        self._frames = 0
        self._frames_per_step = frames_per_step(config)
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers are none of ours
            self.policy = _find_policy(blueprint, policy)
            self._backend: CollectorBackend = (RayBackend if is_remote else make_local_backend)(blueprint)
        self.num_workers = self._count_workers()
        # Not as late as an object's own end at the exit of the interpreter: other libraries wait for processes there.
        self._finalizer = weakref.finalize(self, self._backend.shutdown)
        atexit.register(self._finalizer)
        self._is_shut_down = False
        self._backend.publish(self.policy.state_dict(), self.policy_version)

    @property
    def frames(self) -> int:
        """Number of frames in all batches so far."""
        return self._frames

    def __iter__(self) -> Iterator[Batch]:
        """Go on where the last iteration ended."""
        return self

    def __next__(self) -> Batch:
        """Wait for a batch.

        Raises:
            CollectorError: a worker failed; its traceback is part of the message.
            StopIteration: the collector was shut down, or has collected as many frames as asked.
        """
        if self._is_shut_down or self._frames >= self.config.saving.train_for_env_steps:
            raise StopIteration
        batch = self._backend.collect(self.policy_version)
        self.num_workers = self._count_workers()
        self._frames += batch["rewards"].numel() * self._frames_per_step
        return batch

    def update_policy_weights_(self) -> None:
        """Publish the weights of `policy`, normalization included: inference uses them from its next batch on."""
        self.policy_version += 1
        self._backend.publish(self.policy.state_dict(), self.policy_version)

    def take_episodes(self) -> list[EpisodeStatistics]:
        """Return the episodes that workers have reported as ended since the last call (about once a second)."""
        taken = list(self._backend.episodes)
        self._backend.episodes.clear()
        return taken

    def map_fn(self, name: str, list_of_args: Sequence[Sequence[Any]]) -> list[Any]:
        """Call a method on every rollout worker.

        Args:
            name: `set_post_collect_hook`, `enable_profile` or another command of a `RolloutWorker`, or one that every
                process has: `set_profiling_enabled`, `set_recording_enabled`.
            list_of_args: the arguments for each worker, `num_workers` tuples.

        Returns:
            What the workers returned, in their order.

        Raises:
            CommandError: a worker raised; its traceback is part of the message.
            CollectorError: a worker failed, or did not answer.
            ValueError: there are not as many tuples as workers.
        """
        if isinstance(list_of_args, str) or not all(isinstance(args, (tuple, list)) for args in list_of_args):
            raise ValueError(f"list_of_args={list_of_args!r}: give a tuple of arguments for each worker, as [(True,)]")
        if len(list_of_args) != self.num_workers:
            raise ValueError(
                f"list_of_args has {len(list_of_args)} tuples and there are {self.num_workers} workers: give one for "
                "each of them, as in [(True,)] * collector.num_workers"
            )
        return self._call_rollout_workers(name, {worker: tuple(args) for worker, args in enumerate(list_of_args)})

    def set_post_collect_hook(self, hook: PostCollectHook | None) -> None:
        """Have `hook(worker, rollout)` called in each rollout worker after each of its rollouts; None: nothing more.

        A rollout is one group of the worker's environments that has finished ``--rollout`` steps. The hook runs where
        the worker does, in another process unless ``--serial_mode=True``: there it is a copy, and has to be picklable
        (functions of the main script and lambdas are). What it raises ends the worker.

        Args:
            hook: gets the index of the worker and the number of the rollout, from 0, over all groups of the worker.
        """
        self.map_fn("set_post_collect_hook", [(hook,)] * self.num_workers)

    def set_profiling_enabled(self, is_enabled: bool) -> None:
        """Turn named ranges off or on again, in this process and in all workers, inference workers included."""
        set_profiling_enabled(is_enabled)
        if not self.config.sampling.serial_mode or self.config.remote.backend == "ray":
            self._call_components("set_profiling_enabled", dict.fromkeys(self._backend.components(), (is_enabled,)))

    def disable_profile(self) -> list[Path]:
        """End all captures that are on, and return the traces that this has written; without any, do nothing.

        A collector that was shut down has ended its captures, too.

        Raises:
            CommandError: a trace cannot be written.
            CollectorError: a worker has failed, or does not answer.
        """
        return [] if self._is_shut_down else super().disable_profile()

    def shutdown(self) -> None:
        """End all workers, and captures with them; doing so again does nothing."""
        if self._is_shut_down:
            return
        self._is_shut_down = True
        try:
            # While workers still have all the time that they want: a long trace takes a while to write.
            super().disable_profile()
        except Exception as error:
            logger.debug("Captures are left to the ends of the workers: %s", error)
        finally:
            atexit.unregister(self._finalizer)
            self._finalizer()

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    def _count_workers(self) -> int:
        return sum(ComponentId.parse(name).kind == ROLLOUT_WORKER for name in self._backend.components())

    def _call_components(self, method: str, arguments: dict[str, tuple[Any, ...]]) -> list[Any]:
        results = self._backend.call(method, arguments, ANSWER_S)
        for component, result in results.items():
            if result.error is not None:
                raise CommandError(f"{component}: {result.error}")
        return [results[component].value for component in arguments]


def _find_policy(blueprint: Blueprint, policy: PolicyNetwork | None) -> PolicyNetwork:
    """Return the caller's network, or a new one; inference has one of the same shape."""
    made = make_model(blueprint, 0)
    if policy is None:
        return made
    wanted, given = (_shapes(network) for network in (made, policy))
    if wanted != given:
        name = min(name for name in wanted.keys() | given.keys() if wanted.get(name) != given.get(name))
        raise ValueError(
            f"the policy is not the network that the configuration describes: {name} is {given.get(name, 'missing')} "
            f"instead of {wanted.get(name, 'missing')}; make it with make_actor_critic from the same configuration, "
            "or change its flags of the model"
        )
    return policy


def _shapes(network: PolicyNetwork) -> dict[str, tuple[tuple[int, ...], Any]]:
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in network.state_dict().items()}
