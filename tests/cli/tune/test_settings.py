"""What can be tried, and that none of it changes what is learned unless that is allowed."""

from __future__ import annotations

import pytest

from sample_profiler.cli.tune.settings import Base, first_settings, flags_of, neighbours, num_processes

FLAGS = {
    "num_workers": 4,
    "num_envs_per_worker": 6,
    "worker_num_splits": 2,
    "inference": "process",
    "transport": "auto",
    "policy_workers_per_policy": 1,
    "num_policies": 1,
    "force_envs_single_thread": False,
    "set_workers_cpu_affinity": True,
    "precision": "fp32",
    "num_batches_to_accumulate": 2,
}
LEARNED = {"precision", "num_batches_to_accumulate", "batch_size", "rollout", "num_epochs", "async_rl"}


def num_envs(base, setting):
    return base.value(setting, "num_workers") * base.value(setting, "num_envs_per_worker")


def all_settings(base):
    first = first_settings(base)
    return {*first, *(each for setting in [(), *first] for each in neighbours(base, setting))}


@pytest.mark.parametrize("envs_wait", [False, True])
def test_there_are_as_many_environments_in_all_settings_and_batches_stay_as_they_are(envs_wait):
    base = Base(FLAGS, num_cores=4, envs_wait=envs_wait)
    settings = all_settings(base)
    assert {num_envs(base, setting) for setting in settings} == {24}
    assert not {name for setting in settings for name, _ in setting} & LEARNED
    assert all(
        base.value(setting, "worker_num_splits") <= base.value(setting, "num_envs_per_worker") for setting in settings
    )


def test_who_allows_it_also_gets_other_numbers_of_environments_and_precisions():
    base = Base(FLAGS, num_cores=4, may_change_learning=True)
    settings = all_settings(base)
    assert {12, 24, 48, 96} <= {num_envs(base, setting) for setting in settings}
    assert (("precision", "bf16"),) in settings


def test_environments_that_wait_get_many_more_workers_than_cores():
    def most(base):
        return max(base.value(setting, "num_workers") for setting in first_settings(base))

    assert most(Base(FLAGS, num_cores=2)) == 4
    assert most(Base(FLAGS, num_cores=2, envs_wait=True)) == 24


def test_what_a_verdict_advises_comes_first_and_the_command_as_it_is_never():
    base = Base(FLAGS, num_cores=4)
    first = first_settings(base, [{"inference": "worker"}])
    assert first[0] == (("inference", "worker"),)
    assert () not in first
    assert len(set(first)) == len(first)


def test_a_setting_is_words_of_a_command_line_and_leaves_out_what_the_command_has():
    base = Base(FLAGS, num_cores=4)
    setting = base.changed((), inference="worker", transport=base.flags.get("transport"))
    assert flags_of(setting) == ["--inference=worker"]


def test_a_setting_that_moves_environments_leaves_nothing_of_where_they_go_to_the_run():
    base = Base(FLAGS, num_cores=4)
    setting = base.changed((), num_workers=2, num_envs_per_worker=12)
    assert flags_of(setting) == ["--num_envs_per_worker=12", "--num_workers=2", "--worker_num_splits=2"]
    assert base.changed(setting, num_workers=4, num_envs_per_worker=6) == ()


def test_processes_are_workers_and_inference_workers():
    base = Base(FLAGS, num_cores=4)
    assert num_processes(base, ()) == 5
    assert num_processes(base, base.changed((), inference="worker")) == 4
