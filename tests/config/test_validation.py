"""Tests of the checks between values, the values chosen automatically, and the names of folders."""

from __future__ import annotations

import pytest

from sample_profiler.config import Config, parse_config
from sample_profiler.errors import ConfigError


def parse(line: str) -> Config:
    return parse_config(["--env=doom_basic", *line.split()])


@pytest.mark.parametrize(
    ("line", "recurrence", "origin"),
    [
        ("", 32, "automatic"),
        ("--rollout=64", 64, "automatic"),
        ("--recurrence=-1", 32, "automatic"),
        ("--use_rnn=False", 1, "automatic"),
        ("--use_rnn=False --recurrence=16", 16, "command line"),
        ("--recurrence=8", 8, "command line"),
    ],
)
def test_recurrence_is_resolved(line: str, recurrence: int, origin: str):
    cfg = parse(line)
    assert (cfg.sampling.recurrence, cfg.origin("recurrence")) == (recurrence, origin)


@pytest.mark.parametrize(
    ("line", "num_splits", "origin"),
    [
        ("", 2, "default"),
        ("--num_envs_per_worker=1", 1, "automatic"),
        ("--num_envs_per_worker=3", 2, "default"),
        ("--num_envs_per_worker=1 --worker_num_splits=1", 1, "command line"),
    ],
)
def test_double_buffering_gives_way_to_a_single_environment(line: str, num_splits: int, origin: str):
    cfg = parse(line)
    assert (cfg.worker_num_splits, cfg.origin("worker_num_splits")) == (num_splits, origin)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("--batch_size=1000", ["--batch_size=1000", "--rollout=32 (default)", "--batch_size=992"]),
        ("--batch_size=16", ["--batch_size=16", "--batch_size=32"]),
        ("--recurrence=5", ["--rollout=32 (default)", "--recurrence=5", "--recurrence=4"]),
        ("--recurrence=64", ["--recurrence=64", "--recurrence=32"]),
        (
            "--num_envs_per_worker=2 --worker_num_splits=4",
            ["--worker_num_splits=4", "--num_envs_per_worker=2", "=4 or more"],
        ),
        ("--worker_num_splits=2 --num_envs_per_worker=1", ["--worker_num_splits=1"]),
        ("--lr_adaptive_min=0.1", ["--lr_adaptive_min=0.1", "--lr_adaptive_max=0.01 (default)"]),
        ("--heartbeat_interval=30", ["--heartbeat_interval=30", "--heartbeat_reporting_interval=300"]),
        ("--heartbeat_interval=20", ["stuck"]),
        ("--pixel_format=WHC", ["--pixel_format=WHC", "Allowed: CHW or HWC"]),
        ("--optimizer=sgd", ["--optimizer=sgd", "Allowed: adam or lamb"]),
        ("--save_best_metric=", ["--save_best_metric= is empty"]),
        ("--stop_at=reward@1>=3", ["--stop_at=reward@1>=3 asks for policy 1", "--num_policies=1 (default)", "is 0"]),
        ("--num_policies=2 --thresholds=1,len@2<=3", ["asks for policy 2", "--num_policies=2", "the last one is 1"]),
        ("--stop_at=reward>475", ["--stop_at=reward>475 has 'reward>475'", "compares by >= or <=", "reward>=475, len"]),
        ("--thresholds=100,", ["--thresholds=100, has ''", "or nothing"]),
        ("--timeline_seconds=5:2 --flight_recorder_mb=0", ["--timeline_seconds=5:2", "--flight_recorder_mb=0"]),
    ],
)
def test_values_that_do_not_fit_each_other(line: str, parts: list[str]):
    with pytest.raises(ConfigError) as caught:
        parse(line)
    (problem,) = caught.value.problems
    assert all(part in problem for part in parts), problem


def test_the_cure_that_a_problem_names_works():
    assert parse("--batch_size=992").batch_size == 992
    assert parse("--recurrence=4").recurrence == 4
    assert parse("--heartbeat_interval=30 --heartbeat_reporting_interval=300").heartbeat_interval == 30
    assert parse("--worker_num_splits=4 --num_envs_per_worker=4").worker_num_splits == 4


def test_all_checks_report_together():
    splits = "--num_envs_per_worker=2 --worker_num_splits=4"
    line = f"--batch_size=1000 --recurrence=5 {splits} --lr_adaptive_min=1 --heartbeat_interval=30"
    with pytest.raises(ConfigError) as caught:
        parse(line)
    assert len(caught.value.problems) == 5


def test_each_group_of_a_worker_gets_one_vector():
    assert parse("--batched_sampling=True").num_envs_per_worker == 2
    assert parse("--batched_sampling=True --worker_num_splits=1").num_envs_per_worker == 1
    assert parse("--batched_sampling=True --num_envs_per_worker=3").num_envs_per_worker == 3


@pytest.mark.parametrize("name", ["a", "my_run", "group/run", "a.b", "..a", "run-1", "Ünï", "a/", "x" * 200])
def test_experiments_inside_the_folder_of_runs(name: str):
    assert parse_config(["--env=x", f"--experiment={name}"]).experiment == name


@pytest.mark.parametrize(
    "name",
    ["", " ", ".", "..", "../x", "a/../../x", "a/..", "./a", "/abs", "//abs", "~", "~/x", "a//b", "a\\b", "a\nb",
     "a\0b", "x" * 201, "ä" * 101, "a/ ../b"],
)  # fmt: skip
def test_experiments_that_leave_the_folder_of_runs_are_refused(name: str):
    with pytest.raises(ConfigError) as caught:
        parse_config(["--env=x", f"--experiment={name}"])
    (problem,) = caught.value.problems
    assert problem.startswith(f"--experiment={name} ") and "below train_dir" in problem


@pytest.mark.parametrize("name", ["", "  ", "a\0b"])
def test_train_dirs_that_cannot_be_folders_are_refused(name: str):
    with pytest.raises(ConfigError, match="train_dir"):
        parse_config(["--env=x", f"--train_dir={name}"])


@pytest.mark.parametrize(
    "flag",
    ["num_policies", "num_batches_to_accumulate", "worker_num_splits", "policy_workers_per_policy", "num_workers",
     "num_envs_per_worker", "batch_size", "num_batches_per_epoch", "num_epochs", "rollout", "stats_avg", "rnn_size",
     "rnn_num_layers", "env_frameskip", "env_framestack", "keep_checkpoints", "train_for_env_steps", "reward_scale",
     "reward_clip", "ppo_clip_ratio", "ppo_clip_value", "vtrace_rho", "vtrace_c", "adam_eps", "learning_rate",
     "obs_scale", "train_for_seconds", "save_every_sec", "save_best_every_sec", "heartbeat_interval",
     "experiment_summaries_interval", "flush_summaries_interval", "initial_stddev", "policy_init_gain",
     "encoder_mlp_layers", "save_milestones_sec", "recurrence"],
)  # fmt: skip
def test_zero_is_refused_where_it_has_no_meaning(flag: str):
    with pytest.raises(ConfigError, match=f"--{flag}=0 "):
        parse(f"--{flag}=0")


@pytest.mark.parametrize(
    "word",
    ["seed=-1", "gamma=1.01", "gamma=-0.1", "gae_lambda=2", "adam_beta1=1", "adam_beta2=1", "default_niceness=20",
     "default_niceness=-21", "max_policy_lag=-1", "max_grad_norm=-1", "kl_loss_coeff=-1", "save_milestones_sec=-2",
     "obs_scale=9e-7", "initial_stddev=9e-5", "initial_stddev=2e4",
     "flush_summaries_interval=86401", "learning_rate=9e-31", "reward_scale=1.1e30",
     "recurrence=-2", "decorrelate_experience_max_seconds=-1", "continuous_tanh_scale=-1", "optimizer=sgd"],
)  # fmt: skip
def test_values_beyond_their_limits_are_refused(word: str):
    with pytest.raises(ConfigError, match=f"--{word} "):
        parse(f"--{word}")


@pytest.mark.parametrize(
    "word",
    ["seed=0", "gamma=1", "gamma=0", "max_grad_norm=0", "max_policy_lag=0", "save_milestones_sec=-1", "seed=None",
     "obs_scale=1e-6", "flush_summaries_interval=86400", "learning_rate=1e-30", "reward_scale=1e30"],
)  # fmt: skip
def test_values_at_their_limits_are_accepted(word: str):
    assert parse(f"--{word}").origin(word.partition("=")[0]) == "command line"
