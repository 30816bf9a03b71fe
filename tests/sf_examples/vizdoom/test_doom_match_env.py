"""Real matches: as many games as players, in step, with frags for rewards, and nothing left behind."""

from __future__ import annotations

import re
import socket
import threading
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import psutil
import pytest
import vizdoom

from sample_profiler.config import parse_config
from sample_profiler.envs import check_reset_result, check_step_result, inspect_env, make_env
from sample_profiler.errors import EnvError
from sf_examples.vizdoom import doom_match_env, game_watch
from sf_examples.vizdoom.doom_demos import DemoFolder
from sf_examples.vizdoom.doom_match_env import DoomMatchEnv, OnlyPlayer, as_players
from sf_examples.vizdoom.doom_matches import DOOM_MATCHES, DoomMatch
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS, DoomScenario
from sf_examples.vizdoom.match_port import reserve_port
from sf_examples.vizdoom.train_vizdoom import register_vizdoom_envs

pytestmark = pytest.mark.whole_run

SHORT = DoomMatch(
    scenario=DoomScenario(
        name="short",
        file="multi_duel.cfg",
        actions=DOOM_SCENARIOS["doom_deathmatch"].actions,
        episode_timeout_tics=9999,
    ),
    num_players=2,
)


LARGE = replace(SHORT, scenario=replace(SHORT.scenario, file="cig.cfg"))
"""With places for more players to begin in."""


def find_games() -> list[psutil.Process]:
    games = [child for child in psutil.Process().children(recursive=True) if child.name() == "vizdoom"]
    return [game for game in games if game.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def make_match(tmp_path, monkeypatch):
    """Make environments that are closed in the end; no game is left."""
    monkeypatch.chdir(tmp_path)
    # On a busy machine a player notices late that a game was killed; that ends no test run.
    monkeypatch.setattr(game_watch, "_PATIENCE_S", 30.0)
    envs = []

    def make(match: DoomMatch = SHORT, render_mode=None, env_index=None, demos=None, **options) -> DoomMatchEnv:
        flags = VizdoomOptions(timelimit=0.1, **options)
        envs.append(DoomMatchEnv(match, flags, 4, render_mode, env_index, demos))
        return envs[-1]

    yield make
    for env in envs:
        env.close()
    assert find_games() == []
    assert list(tmp_path.iterdir()) == []


def idle(env: DoomMatchEnv) -> list[tuple[int, ...]]:
    return [(0,) * len(env.action_space)] * env.num_agents


@pytest.mark.parametrize("name", sorted(DOOM_MATCHES))
def test_registered_matches_keep_the_contract(name, make_match):
    register_vizdoom_envs()
    cfg = parse_config([f"--env={name}"], extra_parts=(VizdoomOptions,), defaults=VIZDOOM_DEFAULTS)
    env = make_env(name, cfg, None)
    spec = inspect_env(env, name)
    assert spec.num_agents == DOOM_MATCHES[name].num_players
    try:
        check_reset_result(env.reset(seed=1), spec, name)
        for _ in range(8):
            actions = [env.action_space.sample() for _ in range(spec.num_agents)]
            check_step_result(env.step(actions if spec.num_agents > 1 else actions[0]), spec, name)
        assert len(find_games()) == spec.num_agents
    finally:
        env.close()


def test_a_match_goes_on_for_hundreds_of_steps_over_ends_of_episodes(make_match):
    env = make_match()
    env.action_space.seed(0)
    env.reset(seed=0)
    num_episodes, lengths, moved = 0, [], False
    before = None
    for step in range(300):
        observations, rewards, terminated, truncated, infos = env.step([env.action_space.sample() for _ in range(2)])
        assert len(rewards) == 2 and not any(terminated)
        moved = moved or (before is not None and (observations[0] != before).any())
        before = observations[0]
        if any(truncated):
            assert all(truncated), "time is up for all at once"
            assert {"frags", "deaths"} == set(infos[0]["episode_extra_stats"])
            num_episodes += 1
            lengths.append(step)
            env.reset()
    # 210 tics in steps of 4.
    assert num_episodes == 5
    assert {later - earlier for earlier, later in pairwise(lengths)} <= {52, 53}
    assert moved


def test_players_see_the_match_each_with_his_own_eyes(make_match):
    env = make_match(render_mode="rgb_array")
    observations, _ = env.reset(seed=0)
    assert (observations[0] != observations[1]).any()
    assert env.render().shape == (120, 320, 3)
    turned = idle(env)
    turned[1] = (0, 0, 0, 0, 0, 10)  # the second player alone turns
    for _ in range(5):
        later = env.step(turned)[0]
    changed = [np.mean(before != after) for before, after in zip(observations, later, strict=True)]
    assert changed[1] > 0.5 > changed[0]


def test_rewards_are_what_the_variables_rose_by(make_match, monkeypatch):
    env = make_match()
    env.reset(seed=0)
    rows = iter([[[0, 0, 0, 0], [0, 0, 0, 0]], [[1, 0, 2, 50], [0, 1, 0, 0]], [[0, 1, 0, 0], [0, 1, 1, 10]]])
    monkeypatch.setattr(env, "_read_variables", lambda: np.array(next(rows), float))
    assert env.step(idle(env))[1] == [0, 0]
    assert env.step(idle(env))[1] == pytest.approx([1 + 2 * 0.01 + 50 * 0.003, -0.75])
    # A frag lost, a death; hits and damage that begin anew at zero are not taken away.
    assert env.step(idle(env))[1] == pytest.approx([-1 - 0.75, 0.01 + 10 * 0.003])


@pytest.mark.parametrize("player", [0, 1])
def test_a_killed_game_ends_the_match_with_an_error_that_names_it(make_match, player):
    env = make_match()
    env.reset(seed=0)
    find_games()[player].kill()
    with pytest.raises(EnvError, match=r"short: a game of the match failed in step\(\)"):
        for _ in range(100):
            env.step(idle(env))
    assert find_games() == []
    env.reset()  # new games start
    env.step(idle(env))


def test_a_game_that_hangs_ends_the_match(make_match, monkeypatch):
    env = make_match()
    env.reset(seed=0)
    monkeypatch.setattr(doom_match_env, "_PATIENCE_S", 0.5)
    find_games()[0].suspend()
    with pytest.raises(EnvError, match="short: the games of the match have not answered each other"):
        env.step(idle(env))
    assert find_games() == []


def test_a_port_is_used_by_one_match_and_by_nobody_else():
    first = reserve_port(range(23_000, 23_100))
    port = first.getsockname()[1]
    with pytest.raises(EnvError, match=f"no port from {port} to {port} is free"):
        reserve_port([port])
    first.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", port))
        with pytest.raises(EnvError, match="is free for a match"):
            reserve_port([port])
    reserve_port([port]).close()


def test_several_matches_at_once_do_not_hinder_each_other(make_match):
    envs = [make_match(), make_match()]
    for env in envs:
        env.reset()
    for _ in range(20):
        for env in envs:
            env.step(idle(env))
    assert len(find_games()) == 4


def test_frames_of_several_players_are_not_stacked():
    flags = ["--env=doom_duel", "--env_framestack=4"]
    cfg = parse_config(flags, extra_parts=(VizdoomOptions,), defaults=VIZDOOM_DEFAULTS)
    register_vizdoom_envs()
    with pytest.raises(EnvError, match="--env_framestack=4: doom_duel has several agents"):
        make_env("doom_duel", cfg, None)


def test_step_before_reset_and_close_twice(make_match):
    env = make_match()
    env.close()
    with pytest.raises(EnvError, match=r"short: step\(\) before reset\(\)"):
        env.step(idle(env))
    env.reset()
    env.close()
    env.close()
    deadline_s = time.monotonic() + 5
    while find_games() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert find_games() == []


def num_players_of(env: DoomMatchEnv) -> int:
    return int(env._games[0].get_game_variable(vizdoom.GameVariable.PLAYER_COUNT))


@pytest.mark.parametrize(("num_agents", "num_bots"), [(1, 1), (2, 3)])
def test_bots_join_each_episode(num_agents, num_bots, make_match):
    env = make_match(LARGE, num_agents=num_agents, num_bots=num_bots)
    assert env.num_agents == num_agents
    env.reset(seed=0)
    for _ in range(2):
        is_over = False
        while not is_over:
            observations, _, _, truncated, _ = env.step(idle(env))
            is_over = any(truncated)
        assert len(observations) == num_agents
        assert num_players_of(env) == num_agents + num_bots
        env.reset()


def test_a_match_of_one_agent_is_an_environment_of_one(make_match):
    env = as_players(make_match(num_agents=1, num_bots=1))
    assert isinstance(env, OnlyPlayer) and inspect_env(env, "short").num_agents == 1
    observation, _ = env.reset(seed=0)
    later, reward, *ends, _ = env.step((0, 0, 0, 0, 0, 10))
    assert observation.shape == later.shape == (3, 72, 128) and isinstance(reward, float) and ends == [False, False]


def test_a_match_waits_for_humans_and_says_where_they_join(make_match, caplog):
    env, has_ended = make_match(LARGE, num_humans=1), threading.Event()

    def join():
        while not (told := re.search(r"-join ADDRESS:(\d+)", caplog.text)):
            time.sleep(0.1)
        game = env._player.make_game()
        game.add_game_args(f"-join 127.0.0.1:{told[1]} +viz_connect_timeout 30")
        game.init()
        while not has_ended.is_set():
            game.advance_action(1)
        game.close()

    human = threading.Thread(target=join)
    human.start()
    try:
        env.reset(seed=0)
        for _ in range(3):
            env.step(idle(env))
        assert num_players_of(env) == 3
    finally:
        has_ended.set()
        for _ in range(3):
            env.step(idle(env))  # the human waits for the others in his last tic
        human.join(30)


@pytest.mark.parametrize(
    ("options", "message"), [({"num_bots": 15}, "2 agents, 15 bots and 0 humans are 17 players, and a match has 16")]
)
def test_too_many_players_are_an_error(options, message, make_match):
    with pytest.raises(EnvError, match=message):
        make_match(**options)


def test_demos_of_a_match_with_bots_are_refused(make_match, tmp_path):
    with pytest.raises(EnvError, match="--record_to is for games without bots"):
        make_match(num_bots=1, demos=DemoFolder(tmp_path / "demos"))
