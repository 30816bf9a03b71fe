"""Tests of the way from command lines, family defaults and saved configurations to one Config."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from sample_profiler.config import (
    Config,
    given_values,
    load_config,
    merge_saved,
    option,
    parse_config,
    parse_run_config,
    save_config,
)
from sample_profiler.config.parts import run as run_options
from sample_profiler.errors import ConfigError
from sample_profiler.profiling.process import usable_cores
from sample_profiler.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class DoomOptions:
    """Doom."""

    res_w: int = option(128, minimum=1)
    """Width of images in pixels."""

    res_h: int = option(72, minimum=1)
    """Height of images in pixels."""

    wide_aspect_ratio: bool = False
    """Render 256 × 144 instead of 160 × 120."""

    difficulty: Literal["easy", "hard"] = "easy"
    """How strong the monsters are."""

    def find_problems(self) -> Iterator[str]:
        if self.res_w < self.res_h:
            yield f"--res_w={self.res_w} is less than --res_h={self.res_h}: exchange them"


@pytest.fixture(autouse=True)
def _no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the cores of these tests count, whatever the container may use that they run in."""
    monkeypatch.setattr(usable_cores, "find_quota", lambda: None)


def parse(line: str, **options: Any) -> Config:
    return parse_config(["--env=doom_basic", *line.split()], **options)


def problems_of(line: str, **options: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(line, **options)
    return caught.value.problems


# Known command lines run as they are.

LONG_COMMAND = """--env=doom_benchmark --env_frameskip=4 --train_for_env_steps=4000000 --use_rnn=True --num_workers=12
--num_envs_per_worker=16 --num_policies=1 --num_epochs=1 --rollout=32 --recurrence=32 --batch_size=2048
--experiment=profiling --benchmark=True --decorrelate_envs_on_one_worker=False --res_w=128 --res_h=72
--wide_aspect_ratio=True --policy_workers_per_policy=1 --worker_num_splits=2 --batched_sampling=False
--serial_mode=False --async_rl=True --policy_workers_per_policy=1"""


def test_the_long_vizdoom_command_line():
    cfg = parse_config(LONG_COMMAND.split(), extra_parts=[DoomOptions])
    assert (cfg.num_workers, cfg.num_envs_per_worker, cfg.batch_size, cfg.recurrence) == (12, 16, 2048, 32)
    assert cfg.benchmark is True and cfg.decorrelate_envs_on_one_worker is False and cfg.wide_aspect_ratio is True
    assert cfg.train_for_env_steps == 4_000_000


def test_the_last_of_a_repeated_flag_counts():
    cfg = parse_config([*LONG_COMMAND.split(), "--train_for_env_steps=200000"], extra_parts=[DoomOptions])
    assert cfg.train_for_env_steps == 200_000


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("--env a --use_rnn --rollout=64 --rollout=32", {"env": "a", "use_rnn": True, "rollout": 32}),
        ("--env=a=b --encoder_mlp_layers 8 9", {"env": "a=b", "encoder_mlp_layers": (8, 9)}),
        ("--rollout=x --res_w=3 word --seed --env=", {}),
        ("", {}),
    ],
)
def test_what_a_line_gives_is_known_before_it_is_parsed_and_what_is_wrong_is_left_out(
    line: str, values: dict[str, Any]
):
    assert given_values(line.split()) == values


def test_the_serial_mujoco_command_line():
    cfg = parse_config(["--env=mujoco_ant", "--serial_mode=True", "--async_rl=False"])
    assert cfg.sampling.serial_mode is True and cfg.sampling.async_rl is False


DEFAULTS = {
    "experiment": "default_experiment", "train_dir": "./train_dir", "restart_behavior": "resume", "device": "auto",
    "precision": "fp32", "compile": False, "cuda_graphs": False, "inference": "process", "transport": "auto",
    "seed": None, "num_policies": 1, "async_rl": True, "serial_mode": False, "batched_sampling": False,
    "num_batches_to_accumulate": 2, "worker_num_splits": 2, "policy_workers_per_policy": 1, "max_policy_lag": 1000,
    "batch_size": 1024, "num_batches_per_epoch": 1, "num_epochs": 1, "rollout": 32,
    "recurrence": 32, "shuffle_minibatches": False, "gamma": 0.99, "reward_scale": 1.0, "reward_clip": 1000.0,
    "value_bootstrap": False, "normalize_returns": True, "exploration_loss_coeff": 0.003, "value_loss_coeff": 0.5,
    "kl_loss_coeff": 0.0, "exploration_loss": "entropy", "gae_lambda": 0.95, "ppo_clip_ratio": 0.1,
    "ppo_clip_value": 1.0, "with_vtrace": False, "vtrace_rho": 1.0, "vtrace_c": 1.0, "optimizer": "adam",
    "adam_eps": 1e-6, "adam_beta1": 0.9, "adam_beta2": 0.999, "max_grad_norm": 4.0, "learning_rate": 1e-4,
    "lr_decay_steps": -1, "lr_decay_end": 0.0, "action_init_gain": 1.0,
    "lr_schedule": "constant", "lr_schedule_kl_threshold": 0.008, "lr_adaptive_min": 1e-6, "lr_adaptive_max": 1e-2,
    "obs_subtract_mean": 0.0, "obs_scale": 1.0, "normalize_input": True, "normalize_input_keys": None,
    "decorrelate_experience_max_seconds": 0.0, "decorrelate_envs_on_one_worker": True,
    "set_workers_cpu_affinity": True, "force_envs_single_thread": False, "default_niceness": 0, "log_to_file": True,
    "experiment_summaries_interval": 10.0, "flush_summaries_interval": 30.0, "stats_avg": 100,
    "summaries_use_frameskip": True, "heartbeat_interval": 2.0, "heartbeat_reporting_interval": 20.0,
    "on_worker_failure": "restart", "max_worker_restarts": 10, "hang_timeout": 60.0, "on_bad_numbers": "skip",
    "profile_dir": "", "flight_recorder_mb": 8.0, "timeline_seconds": "", "profile_device": "events",
    "train_for_env_steps": 10**10, "train_for_seconds": 1e10, "save_every_sec": 120.0, "keep_checkpoints": 2,
    "metrics_port": 0, "alert_command": "", "alert_webhook": "", "rank_timeout": 600.0, "backend": "local",
    "ray_address": "", "ray_actors": 1, "max_nodes": 0, "ray_actor_cpus": -1, "stop_at": "", "thresholds": "",
    "track": ("tensorboard",), "track_project": "sample_profiler", "track_timeout": 10.0, "with_wandb": False,
    "wandb_user": None, "wandb_project": "sample_factory", "wandb_group": None, "wandb_job_type": "SF",
    "wandb_tags": (), "wandb_dir": "./wandb",
    "load_checkpoint_kind": "latest", "save_milestones_sec": -1.0,
    "save_best_every_sec": 5.0,
    "save_best_metric": "reward", "save_best_after": 100_000, "benchmark": False, "eval_every_steps": 0,
    "eval_num_episodes": 10, "encoder_mlp_layers": (512, 512),
    "encoder_conv_architecture": "convnet_simple", "encoder_conv_mlp_layers": (512,), "use_rnn": True,
    "rnn_size": 512, "rnn_type": "gru", "rnn_num_layers": 1, "decoder_mlp_layers": (), "nonlinearity": "elu",
    "policy_initialization": "orthogonal", "policy_init_gain": 1.0, "actor_critic_share_weights": True,
    "adaptive_stddev": True, "continuous_tanh_scale": 0.0, "initial_stddev": 1.0, "env_frameskip": 1,
    "env_framestack": 1, "pixel_format": "CHW",
}  # fmt: skip


def test_every_flag_and_its_default():
    values = parse("").values()
    assert values.pop("env") == "doom_basic"
    num_workers = values.pop("num_workers")
    assert num_workers >= 1
    assert values.pop("num_envs_per_worker") == min(max(-(-32 // num_workers), 2), 32)
    assert values == DEFAULTS
    assert {name: type(value) for name, value in values.items()} == {name: type(v) for name, v in DEFAULTS.items()}


@pytest.mark.parametrize(
    "flag",
    ["no_render", "save_video", "max_num_episodes", "max_num_frames", "eval_deterministic", "eval_env_frameskip",
     "fps", "with_pbt", "push_to_hub", "actor_worker_gpus", "env_gpu_actions"],
)  # fmt: skip
def test_flags_of_features_that_are_not_there_are_unknown(flag: str):
    assert any(f"--{flag} is not a flag" in problem for problem in problems_of(f"--{flag}=1"))


# Origins.


def test_origins():
    cfg = parse("--rollout=64 --encoder_mlp_layers", defaults={"gamma": 0.9, "rollout": 16})
    assert cfg.origin("rollout") == "command line" and cfg.rollout == 64
    assert cfg.origin("encoder_mlp_layers") == "command line" and cfg.encoder_mlp_layers == ()
    assert cfg.origin("gamma") == "family" and cfg.gamma == 0.9
    assert cfg.origin("batch_size") == "default"
    assert cfg.origin("recurrence") == "automatic"
    assert set(cfg.origins) == set(cfg.values())


def test_a_value_equal_to_the_default_still_comes_from_the_command_line():
    assert parse("--rollout=32").origin("rollout") == "command line"


def test_the_number_of_workers_is_the_number_of_usable_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(5)), raising=False)
    cfg = parse("")
    assert cfg.num_workers == 5 and cfg.origin("num_workers") == "automatic"
    assert parse("--num_workers=3").num_workers == 3
    assert parse("", defaults={"num_workers": 8}).origin("num_workers") == "family"


def test_workers_are_as_many_as_the_quota_of_a_container_feeds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setattr(usable_cores, "find_quota", lambda: usable_cores.Quota(2.5, None))
    assert parse("").num_workers == 3


@pytest.mark.parametrize(
    ("num_cores", "flags", "expected", "origin"),
    [
        (2, "", (2, 32), "automatic"),
        (1, "", (1, 64), "automatic"),
        (3, "", (2, 32), "automatic"),
        (6, "", (4, 16), "automatic"),
        (8, "", (8, 8), "family"),
        (64, "", (8, 8), "family"),
        (2, "--num_workers=8", (8, 8), "command line"),
        (2, "--num_envs_per_worker=8", (8, 8), "family"),
    ],
)
def test_the_environments_of_a_family_go_into_no_more_workers_than_cores(
    monkeypatch: pytest.MonkeyPatch, num_cores: int, flags: str, expected: tuple[int, int], origin: str
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(num_cores)), raising=False)
    cfg = parse(flags, defaults={"num_workers": 8, "num_envs_per_worker": 8})
    assert (cfg.num_workers, cfg.num_envs_per_worker) == expected
    assert cfg.origin("num_workers") == origin


@pytest.mark.parametrize(
    ("num_cores", "flags", "expected"),
    [
        (2, "", (1, "automatic")),
        (2, "--worker_num_splits=2", (2, "command line")),
        (2, "--device=gpu", (2, "default")),  # it computes while the second group is stepped
        (3, "", (2, "default")),  # a core is left for inference
        (8, "", (2, "default")),  # as the family has it
    ],
)
def test_workers_that_have_all_cores_step_their_environments_as_one_group(
    monkeypatch: pytest.MonkeyPatch, num_cores: int, flags: str, expected: tuple[int, str]
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(num_cores)), raising=False)
    monkeypatch.setattr(run_options, "_GPU_DRIVERS", ())
    cfg = parse(flags, defaults={"num_workers": 8, "num_envs_per_worker": 8})
    assert (cfg.worker_num_splits, cfg.origin("worker_num_splits")) == expected


def test_groups_stay_as_a_family_or_a_saved_run_has_them_and_where_a_gpu_may_compute(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    family = {"num_workers": 8, "num_envs_per_worker": 8}
    monkeypatch.setattr(run_options, "_GPU_DRIVERS", ())
    assert parse("", defaults=family | {"worker_num_splits": 4}).worker_num_splits == 4
    monkeypatch.setattr(run_options, "_GPU_DRIVERS", ("/",))
    saved = parse("", defaults=family)
    assert saved.worker_num_splits == 2
    assert parse("--device=cpu", defaults=family).worker_num_splits == 1
    monkeypatch.setattr(run_options, "_GPU_DRIVERS", ())
    assert merge_saved(saved, parse("", defaults=family)).worker_num_splits == 2


def test_cores_are_not_left_idle_for_a_number_that_cannot_be_divided(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)), raising=False)
    cfg = parse("", defaults={"num_workers": 13, "num_envs_per_worker": 1})
    assert (cfg.num_workers, cfg.num_envs_per_worker) == (13, 1)


def test_a_family_may_leave_the_number_of_environments_open(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(2)), raising=False)
    monkeypatch.setattr(run_options, "_GPU_DRIVERS", ())
    cfg = parse("", defaults={"num_workers": 8, "num_envs_per_worker": -1})
    assert (cfg.num_workers, cfg.num_envs_per_worker, cfg.worker_num_splits) == (2, 16, 1)


def test_family_defaults_are_typed_values_of_known_flags():
    assert parse("", defaults={"obs_scale": 255, "encoder_mlp_layers": [64, 64]}).values()["obs_scale"] == 255.0
    problems = problems_of("", defaults={"rollout": "32", "eval_fps": 35, "gamma": 2.0})
    assert len(problems) == 3
    assert all("environment family" in problem for problem in problems)
    assert "'32'" in problems[0] and "--eval_fps is not a flag" in problems[1] and "out of range" in problems[2]


def test_a_wrong_family_default_is_reported_even_if_the_command_line_replaces_it():
    assert len(problems_of("--rollout=32", defaults={"rollout": "x"})) == 1


# Extra parts.


def test_extra_parts_are_parsed_and_read_both_ways():
    cfg = parse("--res_w=160 --difficulty hard", extra_parts=[DoomOptions], defaults={"res_h": 90})
    assert cfg.part(DoomOptions) == DoomOptions(res_w=160, res_h=90, difficulty="hard")
    assert cfg.res_w == 160 and cfg.origin("res_h") == "family"


def test_flags_of_a_family_are_unknown_without_it():
    assert "--res_w is not a flag" in problems_of("--res_w=160")[0]


def test_a_family_finds_problems_between_its_own_values():
    problems = problems_of("--res_w=10 --rollout=x", extra_parts=[DoomOptions])
    assert len(problems) == 2 and "exchange them" in problems[1]


def test_a_family_is_not_asked_about_values_that_are_wrong_already():
    assert len(problems_of("--res_w=-10", extra_parts=[DoomOptions])) == 1


def test_a_family_may_not_take_names_that_are_taken():
    @dataclass(frozen=True, kw_only=True)
    class Rollouts:
        rollout: int = 3

    @dataclass(frozen=True, kw_only=True)
    class Models:
        model: int = 3

    class NoDataclass:
        size: int = 3

    with pytest.raises(TypeError, match=r"Rollouts.rollout is already a flag of SamplingOptions"):
        parse("", extra_parts=[Rollouts])
    with pytest.raises(TypeError, match=r"Models.model is a name that Config itself uses"):
        parse("", extra_parts=[Models])
    with pytest.raises(TypeError, match="must be a dataclass"):
        parse("", extra_parts=[NoDataclass])


# Problems.


def test_all_problems_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        parse_config(
            ["stray", "--rolout=3", "--seed=x", "--gamma", "--batch_size=1000", "--experiment=../x", "--device=gpus"]
        )
    text = str(caught.value)
    assert len(caught.value.problems) == 8
    for part in [
        "--rolout",
        "--seed=x",
        "--gamma",
        "stray",
        "--batch_size=1000",
        "../x",
        "--device",
        "--env is required",
    ]:
        assert part in text


def test_a_problem_says_flag_value_what_is_allowed_and_the_cure():
    (problem,) = problems_of("--rollout=0")
    allowed = "a whole number, at least 1 and at most 1000000"
    assert problem == f"--rollout=0 is out of range. Allowed: {allowed}. For example --rollout=32."


def test_env_is_required_and_not_empty():
    with pytest.raises(ConfigError, match="--env is required"):
        parse_config([])
    with pytest.raises(ConfigError, match="--env= is empty"):
        parse_config(["--env="])


def test_a_wrong_value_is_one_problem_only():
    # The default that stands in for it does not fit the rest, but nobody gave that.
    assert len(problems_of("--rollout=x --batch_size=100 --recurrence=20")) == 1


# Resuming.


@pytest.fixture
def saved_run(tmp_path: Path) -> Path:
    line = (
        f"--train_dir={tmp_path} --experiment=a --rollout=48 --batch_size=480 --gamma=0.9 --restart_behavior=overwrite"
    )
    cfg = parse(line, defaults={"adam_eps": 1e-5})
    (tmp_path / "a").mkdir()
    save_config(cfg, RunFolder(cfg.run.folder).config)
    return tmp_path


def test_a_saved_value_counts_unless_its_flag_is_on_the_command_line(saved_run: Path):
    saved = load_config(saved_run / "a" / "config.json")
    parsed = parse(
        f"--train_dir={saved_run} --experiment=a --gamma=0.8", defaults={"adam_eps": 1e-3, "adam_beta1": 0.5}
    )
    cfg = merge_saved(saved, parsed)
    assert cfg.gamma == 0.8 and cfg.origin("gamma") == "command line"
    assert cfg.rollout == 48 and cfg.origin("rollout") == "saved"
    assert cfg.adam_eps == 1e-5 and cfg.origin("adam_eps") == "saved"
    assert cfg.adam_beta1 == 0.9 and cfg.origin("adam_beta1") == "saved"
    assert cfg.restart_behavior == "resume"


def test_a_flag_equal_to_its_default_on_the_command_line_beats_the_saved_value(saved_run: Path):
    saved = load_config(saved_run / "a" / "config.json")
    assert merge_saved(saved, parse("--gamma=0.99")).gamma == 0.99


def test_automatic_values_are_chosen_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    saved = parse("--rollout=32")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(2)), raising=False)
    cfg = merge_saved(saved, parse("--rollout=64"))
    assert (cfg.num_workers, cfg.origin("num_workers")) == (2, "automatic")
    assert (cfg.recurrence, cfg.origin("recurrence")) == (64, "automatic")


def test_a_timeline_is_of_the_start_that_asked_for_it():
    assert merge_saved(parse("--timeline_seconds=5:2"), parse("")).timeline_seconds == ""


def test_a_saved_configuration_does_not_choose_which_module_is_imported(tmp_path: Path):
    line = f"--train_dir={tmp_path} --experiment=a"
    saved = parse(f"{line} --env=theirs.module:Maze-v0", defaults={})
    saved.run.folder.mkdir()
    save_config(saved, RunFolder(saved.run.folder).config)
    with pytest.raises(ConfigError, match=r"--env=theirs\.module:Maze-v0, which imports a module"):
        parse_run_config(line.split())
    given = parse_run_config([*line.split(), "--env=theirs.module:Maze-v0"])
    assert given.origin("env") == "command line"
    of_the_script = parse_run_config(line.split(), defaults={"env": "theirs.module:Maze-v0"})
    assert of_the_script.env == "theirs.module:Maze-v0"


def test_the_run_is_where_it_was_found(tmp_path: Path):
    saved = parse("--train_dir=/elsewhere --experiment=old --restart_behavior=overwrite")
    cfg = merge_saved(saved, parse(f"--train_dir={tmp_path} --experiment=new"))
    assert (cfg.train_dir, cfg.experiment, cfg.restart_behavior) == (str(tmp_path), "new", "resume")


def test_merging_keeps_the_parts_of_the_family():
    saved = parse("--res_w=160", extra_parts=[DoomOptions])
    cfg = merge_saved(saved, parse("--res_h=90", extra_parts=[DoomOptions]))
    assert cfg.part(DoomOptions) == DoomOptions(res_w=160, res_h=90)


def test_values_that_do_not_fit_the_saved_ones_are_found(saved_run: Path):
    saved = load_config(saved_run / "a" / "config.json")
    with pytest.raises(ConfigError, match=re.escape("--batch_size=512 is not a multiple of --rollout=48 (saved)")):
        merge_saved(saved, parse("--batch_size=512"))


def test_a_run_is_resumed_from_its_folder(saved_run: Path):
    # 240 fits the saved rollout of 48 and not the default of 32.
    cfg = parse_run_config(
        ["--env=doom_basic", f"--train_dir={saved_run}", "--experiment=a", "--batch_size=240"],
        defaults={"adam_eps": 1e-3},
    )
    assert (cfg.rollout, cfg.batch_size, cfg.adam_eps, cfg.gamma) == (48, 240, 1e-5, 0.9)
    assert cfg.origin("rollout") == "saved" and cfg.restart_behavior == "resume"


def test_a_flag_that_the_saved_configuration_does_not_have_keeps_the_familys_default(saved_run: Path):
    line, parts = ["--env=doom_basic", f"--train_dir={saved_run}", "--experiment=a"], [DoomOptions]
    cfg = parse_run_config(line, extra_parts=parts, defaults={"res_w": 96, "adam_beta1": 0.5})
    assert (cfg.part(DoomOptions).res_w, cfg.origin("res_w"), cfg.origin("res_h")) == (96, "family", "default")
    assert (cfg.adam_beta1, cfg.origin("adam_beta1")) == (0.9, "saved")


@pytest.mark.parametrize("behavior", ["restart", "overwrite"])
def test_a_run_that_begins_anew_ignores_the_saved_configuration(saved_run: Path, behavior: str):
    line = f"--env=doom_basic --train_dir={saved_run} --experiment=a --restart_behavior={behavior}"
    assert parse_run_config(line.split()).rollout == 32


def test_a_run_without_a_saved_configuration_is_new(tmp_path: Path):
    cfg = parse_run_config(["--env=doom_basic", f"--train_dir={tmp_path}"])
    assert cfg == parse_config(["--env=doom_basic", f"--train_dir={tmp_path}"])


def test_problems_of_command_line_and_saved_configuration_come_together(saved_run: Path):
    (saved_run / "a" / "config.json").write_text("{")
    with pytest.raises(ConfigError) as caught:
        parse_run_config(["--env=doom_basic", f"--train_dir={saved_run}", "--experiment=a", "--gamma=x", "--foo"])
    assert len(caught.value.problems) == 3 and "config.json" in str(caught.value)


def test_a_wrong_value_is_reported_although_a_saved_one_exists(saved_run: Path):
    with pytest.raises(ConfigError, match="--gamma=x"):
        parse_run_config(["--env=doom_basic", f"--train_dir={saved_run}", "--experiment=a", "--gamma=x"])


@pytest.mark.parametrize(
    ("flags", "num_envs"),
    [
        ("--num_workers=2", 16),
        ("--num_workers=3", 11),
        ("--num_workers=2 --num_batches_per_epoch=2", 32),
        ("--num_workers=1 --batch_size=8192", 32),
        ("--num_workers=64", 2),
        ("--num_workers=64 --worker_num_splits=4", 4),
        ("--num_workers=64 --num_envs_per_worker=1", 1),
        ("--num_workers=4 --rollout=64", 4),
    ],
)
def test_environments_fill_what_the_learner_trains_on_with_one_rollout_each(flags, num_envs):
    assert parse(flags).sampling.num_envs_per_worker == num_envs


def test_a_run_that_is_resumed_knows_its_environment(saved_run: Path):
    cfg = parse_run_config([f"--train_dir={saved_run}", "--experiment=a"])
    assert cfg.run.env == "doom_basic" and cfg.origin("env") == "saved"


@pytest.mark.parametrize(
    "flags", [("--experiment=b",), ("--experiment=a", "--restart_behavior=restart"), ("--experiment=../a",)]
)
def test_a_run_that_is_not_resumed_needs_an_environment(saved_run: Path, flags: tuple[str, ...]):
    with pytest.raises(ConfigError, match="--env is required"):
        parse_run_config([f"--train_dir={saved_run}", *flags])
