import argparse
import os

import pytest

from sample_profiler.compat.settings.arguments import default_cfg, parse_full_cfg, parse_sf_args
from sample_profiler.compat.settings.attributes import AttrDict

ENV = "--env=mine"


def parse(*words, evaluation=False, add=lambda parser: None):
    parser, known = parse_sf_args([ENV, *words], evaluation=evaluation)
    assert known.env == "mine"
    add(parser)
    return parse_full_cfg(parser, [ENV, *words])


def test_flags_of_ones_own_and_other_defaults_between_two_passes():
    def add(parser):
        parser.add_argument("--num_gates", type=int, default=3)
        parser.set_defaults(rnn_size=128, encoder_mlp_layers=[64, 64], gamma=0.9)

    cfg = parse("--num_gates=5", "--gamma=0.5", add=add)
    assert isinstance(cfg, AttrDict)
    assert (cfg.num_gates, cfg["rnn_size"], cfg.encoder_mlp_layers, cfg.gamma) == (5, 128, [64, 64], 0.5)
    assert cfg.cli_args == {"env": "mine", "num_gates": 5, "gamma": 0.5}
    assert cfg.command_line == f"{ENV} --num_gates=5 --gamma=0.5"


def test_what_only_the_original_has_is_there_with_its_defaults():
    cfg = parse("--algo=APPO", "--with_wandb=False", "--wandb_tags", "a", "b", "--pbt_start_mutation=5")
    assert (cfg.algo, cfg.with_pbt, cfg.wandb_tags, cfg.pbt_start_mutation) == ("APPO", False, ["a", "b"], 5)
    assert (cfg.actor_worker_gpus, cfg.env_gpu_observations, cfg.use_record_episode_statistics) == ([], True, False)


def test_numbers_that_scripts_compute_with_are_numbers():
    cfg = parse(evaluation=True)
    assert cfg.num_workers >= 1 and cfg.num_envs_per_worker == 2
    assert cfg.max_num_frames == cfg.max_num_episodes == 1_000_000_000
    assert cfg.device in ("cpu", "gpu")
    assert os.path.isabs(cfg.train_dir)
    assert not hasattr(parse(), "max_num_frames")


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--use_rnn"], "use_rnn", True),
        (["--use_rnn", "False"], "use_rnn", False),
        (["--encoder_mlp_layers", "32", "16"], "encoder_mlp_layers", [32, 16]),
        (["--encoder_mlp_layers"], "encoder_mlp_layers", []),
        (["--train_for_env_steps=1e6"], "train_for_env_steps", 1_000_000),
        (["--seed=None"], "seed", None),
        (["--rollo=64"], "rollout", 64),  # as argparse has it
    ],
)
def test_values_are_read_as_on_both_command_lines(words, name, value):
    assert parse(*words)[name] == value


@pytest.mark.parametrize(
    ("word", "told"),
    [("--rollout=x", "a whole number"), ("--rnn_type=mamba", "gru or lstm"), ("--rolout=3", "unrecog")],
)
def test_mistakes_end_the_program_and_say_what_is_allowed(word, told, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(word)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_help_is_printed_and_ends_the_program(capsys):
    with pytest.raises(SystemExit) as ended:
        parse("--help", add=lambda parser: parser.add_argument("--num_gates", default=3, help="Gates of a maze"))
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "Gates of a maze (default: 3)" in told
    assert "Length of one trajectory in agent steps. (default: 32)" in told
    assert "Of Sample Factory: there is no population-based training here." in " ".join(told.split())


def test_a_flag_that_a_script_defines_anew_is_its_own():
    cfg = parse("--inference=slow", add=lambda parser: parser.add_argument("--inference", type=str, default="fast"))
    assert cfg.inference == "slow"
    assert cfg.redefined_flags == ["inference"]


def test_options_without_a_command_line():
    assert (default_cfg(env="maze").env, default_cfg().experiment) == ("maze", "test")


def test_the_first_pass_leaves_alone_what_it_does_not_know():
    parser, known = parse_sf_args([ENV, "--num_gates=3"])
    assert isinstance(parser, argparse.ArgumentParser)
    assert not hasattr(known, "num_gates")
