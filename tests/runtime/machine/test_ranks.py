"""Who is one of several that train together, and what is its share."""

from __future__ import annotations

import os

import pytest

from sample_profiler.config import parse_config
from sample_profiler.errors import ConfigError
from sample_profiler.runtime.machine import ranks
from sample_profiler.runtime.machine.ranks import ALONE, RankPlace, find_rank_place, take_share_of_machine

TOLD = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def environ(monkeypatch):
    """Let a test change the environment, and what this process may run on."""
    changed = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES",)}
    changed.pop("GLOO_SOCKET_IFNAME", None)
    monkeypatch.setattr(os, "environ", changed)
    return changed


@pytest.mark.parametrize(
    "environ",
    [{}, {"WORLD_SIZE": "4"}, {"RANK": "3"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "", "WORLD_SIZE": "2"}],
)
def test_who_is_not_told_of_others_is_alone(environ):
    assert find_rank_place(environ) == ALONE
    assert ALONE.is_first


def test_torchrun_says_who_is_where():
    told = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    place = find_rank_place(TOLD | told | {"TORCHELASTIC_RESTART_COUNT": "2"})
    assert place == RankPlace(3, 4, 1, 2, "10.0.0.1", 29500, True, 2)
    assert find_rank_place(TOLD) == RankPlace(3, 4, 0, 1, "10.0.0.1", 29500)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"RANK": "4"}, "RANK=4 is not below WORLD_SIZE=4"),
        ({"RANK": "-1"}, "RANK='-1' is no number from 0"),
        ({"WORLD_SIZE": "four"}, "WORLD_SIZE='four' is no number from 0"),
        ({"MASTER_PORT": "x"}, "MASTER_PORT='x' is no number from 0"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
        ({"MASTER_ADDR": "", "MASTER_PORT": ""}, "MASTER_ADDR and MASTER_PORT are not set"),
    ],
)
def test_half_of_it_is_an_error_with_its_cure(changes, problem):
    with pytest.raises(ConfigError, match="start it with torchrun") as caught:
        find_rank_place(TOLD | changes)
    assert problem in str(caught.value)


def test_minibatches_are_divided_and_nothing_else_is():
    config = parse_config(["--env=any", "--batch_size=1024", "--rollout=32"])
    assert RankPlace(0, 4).share_of(config).sampling.batch_size == 256
    assert RankPlace(0, 4).share_of(config).values() == config.values() | {"batch_size": 256}
    assert ALONE.share_of(config) == config
    with pytest.raises(ConfigError, match=r"--batch_size=1024 cannot be divided among 3 ranks.*--batch_size=960"):
        RankPlace(0, 3).share_of(config)
    with pytest.raises(ConfigError, match=r"--batch_size=2048"):
        RankPlace(0, 64).share_of(config)


def test_each_but_the_first_has_a_folder_and_episodes_of_its_own():
    config = parse_config(["--env=any", "--experiment=mine", "--seed=3"])
    assert RankPlace(0, 3).name_run(config, (0,)) is config
    named = [RankPlace(rank, 3).name_run(config, (0,)) for rank in (1, 2)]
    assert [each.run.folder.name for each in named] == ["mine.rank1", "mine.rank2"]
    again = RankPlace(1, 3, num_restarts=1).name_run(config, (0,))
    resumed = RankPlace(1, 3).name_run(config, (500,))
    assert len({each.run.seed for each in (config, *named, again, resumed)}) == 5
    assert RankPlace(1, 3).name_run(parse_config(["--env=any"]), ()).run.seed is None


@pytest.mark.parametrize(
    ("visible", "local_rank", "expected"),
    [(None, 1, "1"), ("4,7", 1, "7"), ("0", 1, "0"), ("GPU-a,GPU-b", 0, "GPU-a")],
)
def test_each_rank_of_a_machine_sees_a_gpu_of_its_own(environ, monkeypatch, visible, local_rank, expected):
    if visible is not None:
        environ["CUDA_VISIBLE_DEVICES"] = visible
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    take_share_of_machine(RankPlace(local_rank, 2, local_rank, 2))
    assert environ["CUDA_VISIBLE_DEVICES"] == expected
    assert environ["GLOO_SOCKET_IFNAME"] == "lo", "nobody outside is talked to"


def test_more_ranks_than_gpus_are_refused(environ, monkeypatch):
    environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    with pytest.raises(ConfigError, match=r"names 2 GPUs for 3 ranks.*--nproc-per-node=2"):
        take_share_of_machine(RankPlace(2, 3, 2, 3))


@pytest.mark.parametrize(
    ("num_usable", "size", "expected"), [(8, 2, [4, 4]), (8, 3, [2, 2, 2]), (4, 2, [2, 2]), (8, 9, [1] * 9)]
)
def test_cores_are_shared_evenly(environ, monkeypatch, num_usable, size, expected):
    cpus = list(range(10, 18))
    monkeypatch.setattr("sample_profiler.runtime.machine.core_shares.usable_cpus", lambda: cpus)
    monkeypatch.setattr(ranks, "num_usable_cores", lambda: num_usable)
    kept = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: kept.append(set(cores)))
    for rank in range(size):
        take_share_of_machine(RankPlace(rank, size, rank, size))
    assert [len(cores) for cores in kept] == expected
    assert all(cores <= set(cpus) for cores in kept)
    if size <= len(cpus):
        assert len(set.union(*kept)) == sum(expected), "no core is two ranks'"


def test_one_alone_and_one_of_many_machines_keep_all_that_is_theirs(environ, monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("its cores are its own"))
    before = dict(environ)
    take_share_of_machine(ALONE)
    take_share_of_machine(RankPlace(1, 2, 0, 1))
    assert environ == before
