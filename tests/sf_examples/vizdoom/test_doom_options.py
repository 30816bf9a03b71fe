"""Options of the ViZDoom family on the command line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_profiler.config import parse_config
from sample_profiler.config.parts import EvaluationOptions
from sample_profiler.errors import ConfigError, EnvError
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS, find_scenario_file
from sf_examples.vizdoom.enjoy_vizdoom import PLAYING_DEFAULTS


def parse(*argv: str):
    return parse_config(["--env=doom_benchmark", *argv], extra_parts=(VizdoomOptions,), defaults=VIZDOOM_DEFAULTS)


def test_defaults_of_the_family():
    cfg = parse()
    assert cfg.part(VizdoomOptions) == VizdoomOptions(res_w=128, res_h=72, wide_aspect_ratio=False, doom_scenario=None)
    assert (cfg.ppo_clip_value, cfg.obs_scale, cfg.env_frameskip) == (0.2, 255.0, 4)
    assert (cfg.exploration_loss, cfg.exploration_loss_coeff) == ("symmetric_kl", 0.001)


def test_a_played_policy_shows_every_tic_and_is_otherwise_as_trained():
    assert PLAYING_DEFAULTS == VIZDOOM_DEFAULTS | {"eval_env_frameskip": 1}
    parts = (VizdoomOptions, EvaluationOptions)
    cfg = parse_config(["--env=doom_basic"], extra_parts=parts, defaults=PLAYING_DEFAULTS)
    assert cfg.part(EvaluationOptions).eval_env_frameskip == 1


def test_the_command_line_counts():
    cfg = parse("--res_w=64", "--res_h", "48", "--wide_aspect_ratio=True", "--env_frameskip=2")
    assert (cfg.res_w, cfg.res_h, cfg.wide_aspect_ratio, cfg.env_frameskip) == (64, 48, True, 2)


def test_time_is_limited_in_minutes():
    scenario = DOOM_SCENARIOS["doom_basic"]
    assert parse().part(VizdoomOptions).limit(scenario) is scenario
    limited = parse("--timelimit=1.5").part(VizdoomOptions).limit(scenario)
    assert limited == replace(scenario, episode_timeout_tics=3150)
    assert parse("--timelimit=0.0001").part(VizdoomOptions).limit(scenario).episode_timeout_tics == 1
    with pytest.raises(ConfigError, match=r"--timelimit=0 is out of range"):
        parse("--timelimit=0")


def test_all_problems_at_once():
    with pytest.raises(ConfigError) as caught:
        parse("--res_w=2", "--rollout=0")
    assert len(caught.value.problems) == 2
    with pytest.raises(ConfigError, match=r"--doom_scenario=gone.cfg: there is no scenario file 'gone.cfg'.*basic.cfg"):
        parse("--doom_scenario=gone.cfg")


def test_scenario_files_are_found_by_path_and_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped = find_scenario_file("basic.cfg")
    assert shipped.parent.name == "scenarios"
    (tmp_path / "basic.cfg").write_text("")
    assert find_scenario_file("basic.cfg") == tmp_path / "basic.cfg"
    assert find_scenario_file(str(shipped)) == shipped
    with pytest.raises(EnvError, match=r"no scenario file 'gone\.cfg'"):
        find_scenario_file("gone.cfg")
    with pytest.raises(EnvError, match="there is no home directory ~nobody_here"):
        find_scenario_file("~nobody_here/gone.cfg")


def test_benchmark_actions_are_those_of_its_users():
    assert " ".join(DOOM_SCENARIOS["doom_benchmark"].buttons) == (
        "MOVE_FORWARD MOVE_BACKWARD MOVE_RIGHT MOVE_LEFT TURN_RIGHT TURN_LEFT ATTACK SPEED"
    )
    assert DOOM_SCENARIOS["doom_benchmark"].episode_timeout_tics == 2100
