import json
import pickle

import numpy as np
import pytest

from sample_profiler.compat.settings.arguments import parse_full_cfg, parse_sf_args
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import CarriedOptions, program_of, view_of
from sample_profiler.compat.settings.saved import (
    checkpoint_override_defaults,
    experiment_dir,
    load_from_checkpoint,
    maybe_load_from_checkpoint,
)
from sample_profiler.config import load_config, parse_run_config, save_config
from sample_profiler.errors import ConfigError, UsageError
from sample_profiler.model import registry


def parse(folder, *words, evaluation=False, **defaults):
    argv = ["--env=mine", f"--train_dir={folder}", *words]
    parser, _ = parse_sf_args(argv, evaluation=evaluation)
    parser.add_argument("--num_gates", type=int, default=3)
    parser.set_defaults(**defaults)
    return parse_full_cfg(parser, argv)


def config_of(cfg, *, plays=False):
    program = program_of(cfg, plays=plays)
    return parse_run_config(program.argv, extra_parts=program.extra_parts, defaults=program.defaults)


def test_each_value_gets_to_where_it_is_read(tmp_path):
    cfg = parse(tmp_path, "--gamma=0.5", "--encoder_mlp_layers", "8", "4", "--num_gates=7", rnn_size=128)
    cfg.num_workers = 3  # written after the parse
    cfg.maze = {"walls": [1, 2], "size": np.int64(5)}
    config = config_of(cfg)
    assert (config.gamma, config.encoder_mlp_layers, config.rnn_size, config.num_workers) == (0.5, (8, 4), 128, 3)
    assert (config.origin("gamma"), config.origin("rnn_size")) == ("command line", "family")
    view = view_of(config)
    assert (view.num_gates, view["gamma"], view.encoder_mlp_layers) == (7, 0.5, [8, 4])
    assert view.maze == {"walls": [1, 2], "size": 5}
    assert (view.algo, view.with_pbt, view.wandb_project) == ("APPO", False, "sample_factory")
    assert not set(view) & {"cli_args", "command_line", "sample_factory_options", "max_num_frames"}


def test_a_kind_of_core_that_only_a_registered_one_knows_is_carried(tmp_path, monkeypatch):
    cfg = parse(tmp_path)
    cfg.rnn_type = "mamba2"
    with pytest.raises(ConfigError, match="rnn_type"):
        config_of(cfg)
    monkeypatch.setattr(registry, "_makers", {"core": print})
    config = config_of(cfg)
    assert (config.rnn_type, view_of(config).rnn_type) == ("gru", "mamba2")
    cfg.rnn_type = "lstm"
    assert config_of(cfg).rnn_type == "lstm"


def test_nested_values_are_read_in_workers_as_they_were_put_there(tmp_path):
    cfg = parse(tmp_path)
    cfg.maze = AttrDict(size=5, rooms=[AttrDict(doors=2), {"items": 3}])
    cfg.levels = np.arange(3)
    view = pickle.loads(pickle.dumps(view_of(config_of(cfg))))
    assert (view.maze.size, view.maze["rooms"][0].doors, view.levels) == (5, 2, [0, 1, 2])
    assert list(view.maze.rooms[1].items()) == [("items", 3)], "names of methods stay those"


@pytest.mark.parametrize("value", [{1: "a"}, [{"b": {None: 1}}], {"c": object()}, {"d": {1, 2}}])
def test_what_json_would_not_give_back_is_refused_in_one_line(tmp_path, value):
    cfg = parse(tmp_path)
    cfg.maze = value
    with pytest.raises(ConfigError, match=r"^--maze=.* cannot be kept with a run: .*keys are texts$"):
        program_of(cfg)


def test_a_program_that_reads_the_file_of_options_itself_finds_them_by_name(tmp_path):
    cfg = parse(tmp_path, "--gamma=0.5", "--num_gates=7")
    cfg.maze, cfg.limit = {"walls": [1, 2]}, float("inf")
    save_config(config_of(cfg), tmp_path / "config.json")
    read = json.loads((tmp_path / "config.json").read_text())
    assert (read["env"], read["gamma"], read["num_gates"], read["maze"]) == ("mine", 0.5, 7, {"walls": [1, 2]})
    assert (read["algo"], read["format"]) == ("APPO", 1)
    assert "limit" not in read, "the text in which it travels has it; a file of JSON has no word for it"
    assert view_of(load_config(tmp_path / "config.json", (CarriedOptions,))).limit == float("inf")


def test_what_nobody_has_set_stays_as_a_run_here_chooses_it(tmp_path):
    config = config_of(parse(tmp_path))
    assert config.origin("num_workers") == config.origin("num_envs_per_worker") == "automatic"
    assert config.device == "auto"


def test_what_is_asked_for_and_not_there_is_refused_with_the_reason(tmp_path):
    with pytest.raises(ConfigError, match=r"--with_pbt=True.*no population-based training"):
        program_of(parse(tmp_path, "--with_pbt=True"))
    with pytest.raises(ConfigError, match="--algo=DQN"):
        program_of(parse(tmp_path, algo="DQN"))
    with pytest.raises(ConfigError, match=r"--make=<function.*numbers, texts"):
        cfg = parse(tmp_path)
        cfg.make = parse
        program_of(cfg)


def test_options_of_a_run_that_is_resumed_count_unless_they_are_on_the_command_line(tmp_path):
    cfg = parse(tmp_path, "--num_gates=7", "--gamma=0.5", "--experiment=maze")
    cfg.maze = {"size": {"width": 4}}
    first = config_of(cfg)
    first.run.folder.mkdir()
    save_config(first, first.run.folder / "config.json")
    again = parse(tmp_path, "--experiment=maze", gamma=0.8)
    assert view_of(config_of(again)).num_gates == 7
    assert config_of(again).gamma == 0.5
    assert view_of(config_of(parse(tmp_path, "--experiment=maze", "--num_gates=9"))).num_gates == 9
    assert view_of(config_of(parse(tmp_path, "--experiment=other"))).num_gates == 3
    overwritten = parse(tmp_path, "--experiment=maze", "--restart_behavior=overwrite")
    assert view_of(config_of(overwritten)).num_gates == 3

    loaded = load_from_checkpoint(again)
    assert (loaded.num_gates, loaded.gamma, loaded.algo) == (7, 0.5, "APPO")
    assert loaded.maze.size["width"] == loaded["maze"].size.width == 4
    parser, _ = parse_sf_args(["--env=mine"])
    checkpoint_override_defaults(again, parser)
    assert parser.parse_args(["--env=mine"]).gamma == 0.5
    assert experiment_dir(again) == str(first.run.folder)


def test_the_original_format_is_read_too(tmp_path):
    cfg = parse(tmp_path, "--experiment=theirs", "--gamma=0.9")
    assert maybe_load_from_checkpoint(cfg) == cfg
    with pytest.raises(UsageError, match="there is no run"):
        load_from_checkpoint(cfg)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({"num_gates": 11, "gamma": 0.2}))
    assert (load_from_checkpoint(cfg).num_gates, load_from_checkpoint(cfg).gamma) == (11, 0.9)


def test_so_many_frames_are_played_as_there(tmp_path):
    cfg = parse(tmp_path, "--video_name=mine.mp4", evaluation=True)
    assert config_of(cfg, plays=True).max_num_episodes == 10
    cfg.max_num_frames = 1000
    config = config_of(cfg, plays=True)
    assert (config.max_num_frames, config.max_num_episodes, config.video_name) == (1002, 10**9, "mine.mp4")


def test_a_flag_that_a_script_defined_anew_is_no_flag_here(tmp_path):
    argv = ["--env=mine", f"--train_dir={tmp_path}", "--inference=slow"]
    parser, _ = parse_sf_args(argv)
    parser.add_argument("--inference")
    config = config_of(parse_full_cfg(parser, argv))
    assert config.inference == "process"
    assert view_of(config).inference == "slow"
    assert CarriedOptions in [type(part) for part in config.extra_parts]
