"""Owns who talks to whom: every arrow of a run is made here, for all wirings.

```
            actions                       weights
   ┌──────────────────────┐        ┌─────────────────┐
   ▼                      │        ▼                 │
RolloutWorker ×W ─requests─► InferenceWorker ×I    Learner ×P ◄─datasets─┐
   │  ▲                                              └──trained──►       │
   │  └───────────────────── free ────────────────────────────────  Batcher ×P
   └──────────────────────── finished ──────────────────────────────────►┘
```

Parallel wiring: a process for each component, kernel pipes or queues in shared memory between them. Serial wiring: one
process, in-process queues. The components are the same, built by the same functions. With `--inference=worker` the
arrows of requests and actions are in-process queues in all wirings, and each RolloutWorker has its inference in its own
process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sample_profiler.component_id import BATCHER, INFERENCE_WORKER, LEARNER, REMOTE_SAMPLER, ROLLOUT_WORKER, ComponentId
from sample_profiler.components.messages import Counters
from sample_profiler.config import Config, SamplingOptions
from sample_profiler.config.seeds import derive_seed
from sample_profiler.envs import EnvSpec
from sample_profiler.errors import ConfigError
from sample_profiler.model.registry import export_model_parts, recurrent_state_size
from sample_profiler.run.layout.precision import choose_precision
from sample_profiler.runtime.loop.event_loop import Component
from sample_profiler.runtime.loop.transports import LocalTransport, PipeTransport, Transport
from sample_profiler.runtime.machine.ranks import ALONE, RankPlace
from sample_profiler.runtime.messages.channels import Channel, LocalChannel, Reports, Sender
from sample_profiler.storage.checkpoint_names import newest_frames, newest_steps
from sample_profiler.storage.goal_times import names_of_goals
from sample_profiler.storage.policy_weights import PolicyWeights
from sample_profiler.storage.sampling_plan import SamplingPlan, make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout

if TYPE_CHECKING:
    from sample_profiler.model.precision import PrecisionName

__all__ = ["Blueprint", "Channels", "MakeRemoteSampler", "choose_transport", "frames_per_step", "make_blueprint"]


@dataclass(frozen=True)
class Channels:
    """All channels of a run; the index is the receiver's or, for what a policy's components share, the policy's.

    Attributes:
        requests: by worker, by policy: RolloutWorker → InferenceWorkers, groups that want actions. Workers share the
            channel of a policy, unless each has inference of its own.
        asked: by policy, by InferenceWorker: the other side of these. InferenceWorkers of a policy share a channel, or
            have one each.
        actions: by worker: InferenceWorkers → RolloutWorker, groups whose actions are there.
        finished: by policy: RolloutWorkers → Batcher, filled slots.
        datasets: by policy: Batcher → Learner, slots to train on.
        trained: by policy: Learner → Batcher, slots that were trained on.
        free: by worker, one that brings trajectories of other machines included: Batchers → it, slots to fill again.
        first_weights: by policy, by InferenceWorker: Learner → InferenceWorker, the first weights are there.
    """

    requests: tuple[tuple[Sender, ...], ...]
    asked: tuple[tuple[Channel, ...], ...]
    actions: tuple[Channel, ...]
    finished: tuple[Channel, ...]
    datasets: tuple[Channel, ...]
    trained: tuple[Channel, ...]
    free: tuple[Channel, ...]
    first_weights: tuple[tuple[Channel, ...], ...]

    @classmethod
    def make(cls, transport: Transport, config: Config, plan: SamplingPlan) -> Channels:
        """Make the channels of a run, with room for all that can be in each.

        Args:
            transport: that makes them.
            config: of the run.
            plan: each slot is in one channel at most, and each group in one of each policy.

        Raises:
            ConfigError: a channel cannot have room for it.
        """
        sampling, make = config.sampling, transport.make_channel
        policies, workers = range(sampling.num_policies), range(sampling.num_workers)
        batchers, learners = ([str(ComponentId(kind, policy)) for policy in policies] for kind in (BATCHER, LEARNER))
        rollout_workers = [str(ComponentId(ROLLOUT_WORKER, index=worker)) for worker in workers]
        has_own_inference = sampling.inference == "worker"
        inference = [rollout_workers if has_own_inference else _inference_workers_of(config, p) for p in policies]
        slots_of_policy = [sum(len(of_worker[policy]) for of_worker in plan.worker_slots) for policy in policies]
        slots_of_worker = [sum(map(len, of_worker)) for of_worker in plan.worker_slots]
        groups_of_worker = Counter(group.worker for group in plan.groups)
        inner = LocalTransport() if has_own_inference else transport
        if has_own_inference:
            requests: list[tuple[Sender, ...]] = [tuple(LocalChannel() for _ in policies) for _ in workers]
            asked = list(zip(*requests, strict=True))
        else:
            shared = [transport.make_shared("requests", inference[p], len(plan.groups)) for p in policies]
            requests = [tuple(sender for sender, _ in shared)] * len(workers)
            asked = [tuple(receivers) for _, receivers in shared]
        channels = cls(
            requests=tuple(requests),
            asked=tuple(asked),
            actions=tuple(
                inner.make_channel("actions", rollout_workers[w], groups_of_worker[w] * len(policies)) for w in workers
            ),
            finished=tuple(make("finished", batchers[p], slots_of_policy[p]) for p in policies),
            datasets=tuple(make("datasets", learners[p], slots_of_policy[p]) for p in policies),
            trained=tuple(make("trained", batchers[p], slots_of_policy[p]) for p in policies),
            free=tuple(
                make("free", reader, num_slots)
                for reader, num_slots in zip([*rollout_workers, REMOTE_SAMPLER], slots_of_worker, strict=False)
            ),
            first_weights=tuple(
                tuple(make(f"first_weights_{p}", reader, 1) for reader in inference[p]) for p in policies
            ),
        )
        transport.open()
        return channels


def _inference_workers_of(config: Config, policy: int) -> list[str]:
    indices = range(config.sampling.policy_workers_per_policy)
    return [str(ComponentId(INFERENCE_WORKER, policy, index)) for index in indices]


MakeRemoteSampler = Callable[["Blueprint", int, Reports], Component]
"""Makes the component that brings trajectories of other machines, from the blueprint, how many have had its place
before and were lost, and where it reports."""


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
        transport: what the channels are made of.
        run_folder: where the run's files are.
        device: "cpu" or "cuda".
        precision: in which networks compute.
        place: of this run among those that train the same policies.
        trains: whether there are Learners, which evaluate what nobody has evaluated yet.
        make_remote_sampler: makes the component that brings trajectories of other machines; None: none do.
        first_frames: by policy: that it has been trained on in earlier runs, by the checkpoint that is to be loaded.
            None: another rank has the checkpoints, maybe on another machine; Learners hear of them.
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
    transport: Transport
    run_folder: Path
    device: str
    precision: PrecisionName
    first_frames: tuple[int, ...] | None
    place: RankPlace = ALONE
    trains: bool = True
    make_remote_sampler: MakeRemoteSampler | None = None

    def spec_of(self, policy: int) -> EnvSpec:
        """Return the environment as the agents see it that follow a policy."""
        return self.env_spec.of_agent(self.plan.agent_of(policy))


def choose_transport(sampling: SamplingOptions) -> Transport:
    """Return what the channels of a run are made of: as `--transport` asks, and pipes where it leaves that open.

    Raises:
        ConfigError: a library that it needs cannot be used.
    """
    if sampling.serial_mode:
        return LocalTransport()
    if sampling.transport != "fifo":
        return PipeTransport()
    try:
        # Only now: others do without its libraries.
        from sample_profiler.runtime.loop.fifo_transport import FifoTransport
    except ImportError as error:
        raise ConfigError(
            [f"--transport=fifo: {error}: install faster-fifo and signal-slot-mp, or use --transport=pipe"]
        ) from error
    return FifoTransport()


def make_blueprint(
    config: Config,
    seed: int,
    env_payload: bytes,
    env_spec: EnvSpec,
    run_folder: Path,
    device: str,
    transport: Transport,
    place: RankPlace = ALONE,
    make_remote_sampler: MakeRemoteSampler | None = None,
) -> Blueprint:
    """Lay out a run and allocate what its components share."""
    sampling = config.sampling
    plan = make_sampling_plan(
        sampling, env_spec.num_agents, kinds=env_spec.kinds, has_remote_worker=make_remote_sampler is not None
    )
    layouts = TrajectoryLayout.of_kinds(plan, env_spec, recurrent_state_size(config))
    kinds = [env_spec.kinds[plan.agent_of(policy)] for policy in range(sampling.num_policies)]
    return Blueprint(
        config=config,
        seed=_seed_of_this_start(seed, newest_steps(run_folder, sampling.num_policies)),
        env_name=config.run.env,
        env_payload=env_payload,
        model_payload=export_model_parts(),
        env_spec=env_spec,
        plan=plan,
        trajectories=Trajectories(layouts[0], layouts[1:], kinds),
        weights=tuple(PolicyWeights() for _ in range(sampling.num_policies)),
        counters=Counters(
            *(len(plan.worker_slots), sampling.num_policies, config.machine.stats_avg),
            names_of_goals(config.saving),
        ),
        channels=Channels.make(transport, config, plan),
        transport=transport,
        run_folder=run_folder,
        device=device,
        precision=choose_precision(config.run.precision, device),
        place=place,
        make_remote_sampler=make_remote_sampler,
        first_frames=_find_first_frames(config, run_folder) if place.is_first else None,
    )


def _find_first_frames(config: Config, run_folder: Path) -> tuple[int, ...]:
    kind = config.saving.load_checkpoint_kind
    return tuple(newest_frames(run_folder, policy, kind) for policy in range(config.sampling.num_policies))


def _seed_of_this_start(seed: int, steps_done: tuple[int, ...]) -> int:
    """Return another seed for each start of a run: resumed, it must not sample the same episodes again."""
    return derive_seed(seed, *steps_done) if any(steps_done) else seed


def frames_per_step(config: Config) -> int:
    """Return the frames that an agent step counts for."""
    return config.environment.env_frameskip if config.machine.summaries_use_frameskip else 1
