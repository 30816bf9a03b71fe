"""Makes the component that brings a run trajectories of other nodes, in the process where it runs.

Every process of the run reads this module, and most do without torch: what needs it is imported in the function.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from sample_profiler.component_id import REMOTE_SAMPLER
from sample_profiler.config.seeds import derive_seed
from sample_profiler.profiling import Timing
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.messages.heartbeats import Pulse

if TYPE_CHECKING:
    from sample_profiler.collector.remote_sampler import RemoteSampler

__all__ = ["make_remote_sampler"]

_JOIN_S = 120.0
_REJOIN_S = 120.0  # for which a cluster that was lost is waited for
_SEED_GROUPS = 1000  # apart from the kinds of seeds of components


def make_remote_sampler(blueprint: Blueprint, attempt: int, reports: Reports) -> RemoteSampler:
    """Make the RemoteSampler of a run; `attempt` counts those that had its place before and were lost.

    Raises:
        ConfigError: there is no such cluster of Ray, or it has no room.
    """
    from sample_profiler.collector.remote_groups import RemoteGroups
    from sample_profiler.collector.remote_sampler import RemoteSampler, RemoteSamplerMemory, RemoteSamplerPorts
    from sample_profiler.collector.sampling_group import GroupOrder
    from sample_profiler.run.layout.factories import make_model

    plan, config, channels = blueprint.plan, blueprint.config, blueprint.channels
    worker = plan.remote_worker
    assert worker is not None
    timing = Timing(f"{REMOTE_SAMPLER} profile")
    # What lies ready there only grows old: the next dataset is made while one is on its way.
    sampling = replace(config.sampling, num_batches_to_accumulate=0)
    order = GroupOrder(
        config=replace(config, remote=replace(config.remote, backend="local"), sampling=sampling),
        env_spec=blueprint.env_spec,
        env_payload=blueprint.env_payload,
        model_payload=blueprint.model_payload,
        frames=sum(blueprint.first_frames or ()),
    )
    # No two starts of a run sample the same episodes, nor who takes the place of a lost one.
    seeded = replace(config, run=replace(config.run, seed=derive_seed(blueprint.seed, _SEED_GROUPS, attempt)))
    patience_s = _REJOIN_S if attempt else 0.0
    with timing.add_time("join_cluster"), Pulse(REMOTE_SAMPLER, reports).beating(_JOIN_S + patience_s):
        groups = RemoteGroups(seeded, order, spares_own_node=True, patience_s=patience_s)
    return RemoteSampler(
        worker=worker,
        dataset_slots=plan.dataset_slots,
        free=deque(() if attempt else plan.first_slots[worker][0]),
        groups=groups,
        network=make_model(blueprint, 0),
        memory=RemoteSamplerMemory(blueprint.trajectories, blueprint.weights[0], blueprint.counters),
        ports=RemoteSamplerPorts(channels.free[worker], channels.finished[0], reports),
        timing=timing,
    )
