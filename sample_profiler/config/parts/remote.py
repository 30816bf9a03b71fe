"""Options of runs over several processes that train together, or over several machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import option


@dataclass(frozen=True, kw_only=True)
class RemoteOptions:
    """Many machines."""

    rank_timeout: float = option(600.0, above=0, maximum=86_400)
    """Seconds for which a rank of several that train together, under torchrun, waits for the others: for their next
    datasets, or for one that has gone without a word. Then it ends."""

    backend: Literal["local", "ray"] = "local"
    """Where workers run: on this machine (local), or in actors of Ray on any (ray), each a sampling group with
    num_workers workers and their inference. Those of a training are beside the ones on its own machine. Needs
    sample_profiler[ray]."""

    ray_address: str = ""
    """Address of the Ray cluster, as ray.init takes it: auto, or host:port. Empty: one of its own on this machine,
    which nobody else can reach, as long as the run or the Collector is there."""

    ray_actors: int = option(1, minimum=1, maximum=10_000)
    """Number of actors to begin with, spread over the nodes of the cluster; on the Learner's own only if others have no
    room."""

    max_nodes: int = option(0, minimum=0, maximum=10_000)
    """Actors at most, where the cluster grows: a node that joins it gets one. 0: as many as ray_actors."""

    ray_actor_cpus: int = option(-1, minimum=0, maximum=1000, also=-1)
    """Processors that an actor reserves with Ray. -1: one for each of its workers."""
