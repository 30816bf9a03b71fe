"""Owns who talks to whom: every arrow of a run is made here, for both wirings.

```
            actions                       weights
   ┌──────────────────────┐        ┌─────────────────┐
   ▼                      │        ▼                 │
RolloutWorker ×W ─requests─► InferenceWorker ×I    Learner ×P ◄─datasets─┐
   │  ▲                                              └──trained──►       │
   │  └───────────────────── free ────────────────────────────────  Batcher ×P
   └──────────────────────── finished ──────────────────────────────────►┘
```

Parallel wiring: a process for each component, kernel pipes between them. Serial wiring: one process, in-process queues.
The components are the same, built by the same functions. With `--inference=worker` the arrows of requests and actions
are in-process queues in both wirings, and each RolloutWorker has its inference in its own process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sample_profiler.components.messages import Counters
from sample_profiler.config import Config
from sample_profiler.config.seeds import derive_seed
from sample_profiler.envs import EnvSpec
from sample_profiler.model.registry import export_model_parts, recurrent_state_size
from sample_profiler.run.layout.precision import choose_precision
from sample_profiler.runtime.messages.channels import Channel, LocalChannel
from sample_profiler.storage.checkpoint_names import newest_steps
from sample_profiler.storage.goal_times import names_of_goals
from sample_profiler.storage.policy_weights import PolicyWeights
from sample_profiler.storage.sampling_plan import SamplingPlan, make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout

if TYPE_CHECKING:
    from sample_profiler.model.precision import PrecisionName

__all__ = ["Blueprint", "Channels", "frames_per_step", "make_blueprint"]


@dataclass(frozen=True)
class Channels:
    """All channels of a run; the index is the receiver's or, for what a policy's components share, the policy's.

    Attributes:
        requests: by worker, by policy: RolloutWorker → InferenceWorkers, groups that want actions. Workers share the
            channel of a policy, unless each has inference of its own.
        actions: by worker: InferenceWorkers → RolloutWorker, groups whose actions are there.
        finished: by policy: RolloutWorkers → Batcher, filled slots.
        datasets: by policy: Batcher → Learner, slots to train on.
        trained: by policy: Learner → Batcher, slots that were trained on.
        free: by worker: Batchers → RolloutWorker, slots to fill again.
        first_weights: by policy, by InferenceWorker: Learner → InferenceWorker, the first weights are there.
    """

    requests: tuple[tuple[Channel, ...], ...]
    actions: tuple[Channel, ...]
    finished: tuple[Channel, ...]
    datasets: tuple[Channel, ...]
    trained: tuple[Channel, ...]
    free: tuple[Channel, ...]
    first_weights: tuple[tuple[Channel, ...], ...]

    @classmethod
    def make(cls, make_channel: Callable[[int], Channel], config: Config, plan: SamplingPlan) -> Channels:
        """Make the channels of a run.

        Args:
            make_channel: that has room for so many values.
            config: of the run.
            plan: each slot and each group is in one channel at most, and there are no more groups than slots.

        Raises:
            ConfigError: a channel cannot have room for them.
        """
        sampling, make = config.sampling, partial(make_channel, plan.num_slots)
        policies = range(sampling.num_policies)
        workers = range(sampling.num_workers)
        if sampling.inference == "worker":
            requests: tuple[tuple[Channel, ...], ...]
            requests = tuple(tuple(LocalChannel() for _ in policies) for _ in workers)
            actions: tuple[Channel, ...] = tuple(LocalChannel() for _ in workers)
            inference = workers
        else:
            requests = (tuple(make() for _ in policies),) * len(workers)
            actions = tuple(make() for _ in workers)
            inference = range(sampling.policy_workers_per_policy)
        return cls(
            requests=requests,
            actions=actions,
            finished=tuple(make() for _ in policies),
            datasets=tuple(make() for _ in policies),
            trained=tuple(make() for _ in policies),
            free=tuple(make() for _ in workers),
            first_weights=tuple(tuple(make() for _ in inference) for _ in policies),
        )


@dataclass(frozen=True)
class Blueprint:
    """Everything that the components of a run are built from; travels to every process.

    Attributes:
        config: of the run.
        seed: of the run; all others are derived from it.
        env_name: the environment, and `env_payload` how to make it where it is not registered.
        model_payload: parts of networks that the user has registered.
        env_spec: its spaces and agents.
        plan: who samples what.
        trajectories, weights, counters: shared memory; weights by policy.
        channels: who talks to whom.
        run_folder: where the run's files are.
        device: "cpu" or "cuda".
        precision: in which networks compute.
    """

    config: Config
    seed: int
    env_name: str
    env_payload: bytes
    model_payload: dict[str, bytes]
    env_spec: EnvSpec
    plan: SamplingPlan
    trajectories: Trajectories
    weights: tuple[PolicyWeights, ...]
    counters: Counters
    channels: Channels
    run_folder: Path
    device: str
    precision: PrecisionName


def make_blueprint(
    config: Config,
    seed: int,
    env_payload: bytes,
    env_spec: EnvSpec,
    run_folder: Path,
    device: str,
    make_channel: Callable[[int], Channel],
) -> Blueprint:
    """Lay out a run and allocate what its components share."""
    sampling = config.sampling
    plan = make_sampling_plan(sampling, env_spec.num_agents)
    return Blueprint(
        config=config,
        seed=_seed_of_this_start(seed, newest_steps(run_folder, sampling.num_policies)),
        env_name=config.run.env,
        env_payload=env_payload,
        model_payload=export_model_parts(),
        env_spec=env_spec,
        plan=plan,
        trajectories=Trajectories(TrajectoryLayout.of(plan, env_spec, recurrent_state_size(config))),
        weights=tuple(PolicyWeights() for _ in range(sampling.num_policies)),
        counters=Counters(
            *(sampling.num_workers, sampling.num_policies, config.machine.stats_avg),
            names_of_goals(config.saving),
        ),
        channels=Channels.make(make_channel, config, plan),
        run_folder=run_folder,
        device=device,
        precision=choose_precision(config.run.precision, device),
    )


def _seed_of_this_start(seed: int, steps_done: tuple[int, ...]) -> int:
    """Return another seed for each start of a run: resumed, it must not sample the same episodes again."""
    return derive_seed(seed, *steps_done) if any(steps_done) else seed


def frames_per_step(config: Config) -> int:
    """Return the frames that an agent step counts for."""
    return config.environment.env_frameskip if config.machine.summaries_use_frameskip else 1
