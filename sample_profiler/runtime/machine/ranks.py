"""Owns where this process stands among several that train together: its rank, and its share of the machine.

torchrun starts as many processes as there are to be and tells each in its environment which it is; so does whoever sets
the same variables, such as a script of Slurm's. Each is a whole run of its own, with its workers, inference and
Learners; what their Learners have in common is in `sample_profiler.ppo.ranks`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from sample_profiler.config import Config
from sample_profiler.config.seeds import derive_seed
from sample_profiler.errors import ConfigError
from sample_profiler.profiling.process.usable_cores import num_usable_cores
from sample_profiler.run_folder import name_of_rank
from sample_profiler.runtime.machine.core_shares import choose_cpus

__all__ = ["ALONE", "RankPlace", "RankState", "find_rank_place", "take_share_of_machine"]

_NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
_GPUS = "CUDA_VISIBLE_DEVICES"
_INTERFACE = "GLOO_SOCKET_IFNAME"


class RankState(IntEnum):
    """How a rank goes on; where several end, the largest counts."""

    GOES_ON = 0
    DONE = 1
    INTERRUPTED = 2
    FAILED = 3


@dataclass(frozen=True)
class RankPlace:
    """Where a process stands among those that train together; by default it is alone.

    Attributes:
        rank: its number, from 0; that one keeps the run's files.
        size: how many there are.
        local_rank: its number among those of its machine.
        local_size: how many of them are on its machine.
        address, port: where they find each other.
        is_served: whether whoever has started them keeps that open; else rank 0 does.
        num_restarts: how often they were started anew after one was lost.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    address: str = ""
    port: int = 0
    is_served: bool = False
    num_restarts: int = 0

    @property
    def is_first(self) -> bool:
        """Whether the run's files, and what is said in the terminal, are this one's affair."""
        return self.rank == 0

    def name_run(self, config: Config, steps_done: tuple[int, ...]) -> Config:
        """Return the configuration with a folder for this rank alone beside the run's, unless it is the first.

        Seeds differ, too: no two ranks are to sample the same episodes, nor those of the run that they go on with.

        Args:
            config: of the run.
            steps_done: optimizer steps of its policies, as far as that can be seen from here.
        """
        if self.is_first:
            return config
        seed = config.run.seed
        drawn = None if seed is None else derive_seed(seed, self.rank, self.num_restarts, *steps_done)
        return replace(
            config,
            run=replace(config.run, experiment=name_of_rank(config.run.experiment, self.rank), seed=drawn),
        )

    def share_of(self, config: Config) -> Config:
        """Return the configuration with this rank's part of each minibatch.

        Raises:
            ConfigError: it cannot be divided, or ranks would wait for each other for ever.
        """
        sampling = config.sampling
        if self.size > 1 and sampling.serial_mode and sampling.num_policies > 1:
            raise ConfigError(
                [
                    f"--num_policies={sampling.num_policies} with --serial_mode=True: Learners of several ranks wait "
                    "for each other side by side, which one process cannot do; use --serial_mode=False, or one policy"
                ]
            )
        whole, pieces = sampling.batch_size, sampling.rollout * self.size
        if whole % pieces:
            fitting = max(1, whole // pieces) * pieces
            raise ConfigError(
                [
                    f"--batch_size={whole} cannot be divided among {self.size} ranks: it is the minibatch of all "
                    f"of them together, and each trains on whole rollouts of {sampling.rollout} steps; use for example "
                    f"--batch_size={fitting}"
                ]
            )
        return replace(config, sampling=replace(sampling, batch_size=whole // self.size))


ALONE = RankPlace()


def find_rank_place(environ: Mapping[str, str]) -> RankPlace:
    """Return where a process stands, as the variables say that torchrun sets; alone where they are not set.

    Args:
        environ: variables of its environment.

    Raises:
        ConfigError: they are incomplete, or make no sense together.
    """
    if not (environ.get("RANK") and environ.get("WORLD_SIZE")):
        return ALONE
    numbers = {name: _read_number(environ, name) for name in _NUMBERS if environ.get(name)}
    rank, size = numbers["RANK"], numbers["WORLD_SIZE"]
    if not rank < size:
        raise _problem(environ, f"RANK={rank} is not below WORLD_SIZE={size}")
    if size == 1:
        return ALONE
    if missing := [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environ.get(name)]:
        raise _problem(environ, f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set")
    return RankPlace(
        rank=rank,
        size=size,
        local_rank=numbers.get("LOCAL_RANK", 0),
        local_size=max(1, numbers.get("LOCAL_WORLD_SIZE", 1)),
        address=environ["MASTER_ADDR"],
        port=numbers["MASTER_PORT"],
        is_served=environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True),
        num_restarts=numbers.get("TORCHELASTIC_RESTART_COUNT", 0),
    )


def take_share_of_machine(place: RankPlace) -> None:
    """Leave the cores and GPUs of other ranks on this machine to them: the processes of this one inherit what it keeps.

    Each gets as many cores, and a GPU of its own if there are any; where there are fewer cores than ranks they get one
    each, in turn. Where all ranks are on this machine they talk over its loopback interface alone.

    Raises:
        ConfigError: there are fewer GPUs than ranks.
    """
    if place.size == 1:
        return
    if place.local_size == place.size:
        os.environ.setdefault(_INTERFACE, "lo")
    if place.local_size == 1:
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, _cpus_of(place))
    os.environ[_GPUS] = _gpu_of(place, os.environ.get(_GPUS))


def _cpus_of(place: RankPlace) -> tuple[int, ...]:
    # A container's quota may allow for less than the cores that it shows.
    return choose_cpus(place.local_rank, place.local_size)[: max(1, num_usable_cores() // place.local_size)]


def _gpu_of(place: RankPlace, visible: str | None) -> str:
    """Return the GPU for a rank; where a single one is visible, whoever has started the ranks gave each its own."""
    if visible is None:
        return str(place.local_rank)
    gpus = visible.split(",")
    if len(gpus) == 1:
        return visible
    if place.local_rank >= len(gpus):
        raise ConfigError(
            [
                f"{_GPUS}={visible} names {len(gpus)} GPUs for {place.local_size} ranks on this machine: each needs "
                f"one of its own; use --nproc-per-node={len(gpus)}"
            ]
        )
    return gpus[place.local_rank]


def _read_number(environ: Mapping[str, str], name: str) -> int:
    try:
        number = int(environ[name])
    except ValueError:
        number = -1
    if number < 0:
        raise _problem(environ, f"{name}={environ[name]!r} is no number from 0")
    return number


def _problem(environ: Mapping[str, str], what: str) -> ConfigError:
    return ConfigError(
        [
            f"RANK={environ['RANK']} and WORLD_SIZE={environ['WORLD_SIZE']} are set, so this is to be one of several "
            f"processes that train together, and {what}: start it with torchrun, which sets all that is needed, or "
            "unset both for a run of its own"
        ]
    )
