"""Real ViZDoom games: observations, seeds, ends of episodes, and that nothing is left behind."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from sample_profiler.config import parse_config
from sample_profiler.envs import check_reset_result, check_step_result, inspect_env, make_env
from sample_profiler.errors import EnvError
from sample_profiler.runtime.processes.orphans import mapped_shared_memory
from sample_profiler.spaces import action_parts
from sf_examples.vizdoom import doom_env
from sf_examples.vizdoom.doom_env import DoomEnv
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS, DoomScenario, find_scenario_file
from sf_examples.vizdoom.train_vizdoom import register_vizdoom_envs

pytestmark = pytest.mark.whole_run

IDLE = 0
ATTACK = 3


def find_games() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.name() == "vizdoom"]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """Every game is started from an empty folder, which stays empty; no game is left."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield
    assert find_games() == []
    assert list(folder.iterdir()) == []


@pytest.fixture
def make_doom():
    """Make environments that are closed in the end, also when a test fails."""
    envs = []

    def make(name: str, frameskip: int = 4, scenario: DoomScenario | None = None, **options) -> DoomEnv:
        envs.append(DoomEnv(scenario or DOOM_SCENARIOS[name], VizdoomOptions(**options), frameskip))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


def play(env: DoomEnv, seed: int, num_steps: int) -> list[tuple[bytes, float]]:
    """Play the same actions for the same number of steps, over ends of episodes."""
    rng = np.random.default_rng(0)
    trace = [(env.reset(seed=seed)[0].tobytes(), 0.0)]
    for _ in range(num_steps):
        observation, reward, terminated, truncated, _ = env.step(rng.integers(env.action_space.n))
        trace.append((observation.tobytes(), reward))
        if terminated or truncated:
            trace.append((env.reset()[0].tobytes(), 0.0))
    return trace


def test_each_decision_holds_its_own_button():
    scenario = DOOM_SCENARIOS["doom_deathmatch"]
    rows = scenario.rows()
    buttons = scenario.buttons
    assert [len(group) for group in rows] == [3, 3, 3, 2, 2, 11]
    assert all(set(group[0]) == {0.0} for group in rows)
    assert rows[0][2][buttons.index("MOVE_BACKWARD")] == 1.0
    assert [row[buttons.index("TURN_LEFT_RIGHT_DELTA")] for row in rows[5]] == [0, -10, -8, -6, -4, -2, 2, 4, 6, 8, 10]
    env = DoomEnv(scenario, VizdoomOptions())
    held = env._player.held((1, 0, 2, 1, 0, 10))
    assert {button: amount for button, amount in zip(buttons, held, strict=True) if amount} == {
        "MOVE_FORWARD": 1.0, "SELECT_NEXT_WEAPON": 1.0, "ATTACK": 1.0, "TURN_LEFT_RIGHT_DELTA": 10.0
    }  # fmt: skip


def test_all_scenarios_that_are_shipped_have_a_name():
    files = {path.stem for path in find_scenario_file("basic.cfg").parent.glob("*.cfg")}
    played_alone = files - {"basic_audio", "basic_notifications", "cig", "multi", "multi_duel"}
    whole_games = {"doom", "doom2", "freedoom1", "freedoom2", "oblige", "learning"}
    assert {f"doom_{name}" for name in played_alone - whole_games} <= set(DOOM_SCENARIOS)


@pytest.mark.parametrize("name", sorted(DOOM_SCENARIOS))
def test_registered_scenarios_keep_the_contract(name):
    register_vizdoom_envs()
    cfg = parse_config([f"--env={name}"], extra_parts=(VizdoomOptions,), defaults=VIZDOOM_DEFAULTS)
    env = make_env(name, cfg, None)
    spec = inspect_env(env, name)
    assert find_games() == [], "the game starts with the first reset"
    try:
        check_reset_result(env.reset(seed=1), spec, name)
        for _ in range(8):
            check_step_result(env.step(spec.action_space.sample()), spec, name)
        assert len(find_games()) == 1
    finally:
        env.close()
    assert spec.observation_space["obs"].shape == (3, 72, 128)
    assert [part.n for part in action_parts(spec.action_space)] == [
        1 + len(group) for group in DOOM_SCENARIOS[name].actions
    ]


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (3, 72, 128)),
        ({"res_w": 160, "res_h": 120}, (3, 120, 160)),
        ({"wide_aspect_ratio": True}, (3, 72, 128)),
        ({"wide_aspect_ratio": True, "res_w": 256, "res_h": 144}, (3, 144, 256)),
    ],
)
def test_observations_are_planar_images_of_the_chosen_size(make_doom, options, shape):
    env = make_doom("doom_basic", **options)
    observation, _ = env.reset(seed=0)
    assert observation.shape == shape
    assert observation.dtype == np.uint8
    assert observation.flags.c_contiguous
    assert observation.std() > 10, "a picture, not a single colour"
    # The floor at the bottom of doom_basic is brown: channels are red, green, blue, one plane each.
    red, _, blue = observation[:, -4:, :8].mean(axis=(1, 2))
    assert red > blue


def test_earlier_observations_do_not_change(make_doom):
    env = make_doom("doom_benchmark", res_w=160, res_h=120)
    first, _ = env.reset(seed=3)
    copy = first.copy()
    for _ in range(5):
        second = env.step(1)[0]
    np.testing.assert_array_equal(first, copy)
    assert (first != second).any()


def test_equal_seeds_repeat_and_others_differ(make_doom):
    one, two = make_doom("doom_basic"), make_doom("doom_basic")
    expected = play(one, 7, 120)
    assert play(two, 7, 120) == expected
    assert play(one, 7, 120) == expected, "whatever was played before"
    assert play(one, 8, 120) != expected


def test_without_a_seed_games_differ(make_doom):
    first = make_doom("doom_benchmark").reset()[0]
    assert (first != make_doom("doom_benchmark").reset()[0]).any()


@pytest.mark.parametrize(("timelimit", "num_tics"), [(None, 300), (40 / 2100, 40)])
def test_end_of_time_is_truncation_and_repeats_the_last_frame(make_doom, timelimit, num_tics):
    env = make_doom("doom_basic", timelimit=timelimit)
    env.reset(seed=0)
    for _ in range(num_tics // 4 - 1):
        last, _, terminated, truncated, _ = env.step(IDLE)
        assert not (terminated or truncated)
    observation, reward, terminated, truncated, _ = env.step(IDLE)
    assert (terminated, truncated) == (False, True)
    assert reward == pytest.approx(-0.04)
    np.testing.assert_array_equal(observation, last)


def test_reaching_the_goal_is_termination(make_doom):
    env = make_doom("doom_basic")
    for seed in range(50):
        env.reset(seed=seed)
        is_over, rewards = False, []
        while not is_over:
            _, reward, terminated, truncated, _ = env.step(ATTACK)
            rewards.append(reward)
            is_over = terminated or truncated
        if terminated:
            assert not truncated
            assert 0.9 < rewards[-1] <= 1.0
            return
    pytest.fail("the monster was never in front of the gun")


def test_death_is_termination(make_doom):
    env = make_doom("doom_health_gathering", frameskip=8)
    env.reset(seed=0)
    total = 0.0
    while True:  # the floor kills whoever stays where he is
        _, reward, terminated, truncated, _ = env.step(IDLE)
        total += reward
        if terminated or truncated:
            break
    assert (terminated, truncated) == (True, False)
    # 0.01 for each tic and nothing for dying; the tics are fewer than the time limit.
    assert 1.0 < total < 21.0


def test_health_gathering_rewards_medkits(make_doom):
    env = make_doom("doom_health_gathering")
    env.reset(seed=0)
    rewards, is_over = [], False
    rng = np.random.default_rng(1)
    for _ in range(6):
        begin, infos = len(rewards), []
        while not is_over:
            _, reward, terminated, truncated, info = env.step(3 if rng.random() < 0.8 else 1)
            rewards.append(reward)
            infos.append(info)
            is_over = terminated or truncated
        *before, last = infos
        assert not any(before)
        num_medkits = sum(reward > 0.5 for reward in rewards[begin:])
        assert last == {"true_objective": pytest.approx(sum(rewards[begin:]) - num_medkits)}
        env.reset()
        is_over = False
    assert {round(reward, 2) for reward in rewards} >= {0.04, 1.04}


@pytest.mark.parametrize("name", ["doom_health_gathering", "doom_health_gathering_supreme"])
def test_gathering_tells_the_return_without_what_is_added_for_medkits(make_doom, name):
    env = make_doom(name, frameskip=8)
    env.reset(seed=0)
    total, is_over, info = 0.0, False, {}
    while not is_over:  # the floor kills whoever stays where he is
        _, reward, terminated, truncated, info = env.step(IDLE)
        total += reward
        is_over = terminated or truncated
    assert info["true_objective"] == pytest.approx(total)


def test_frameskip_holds_the_button(make_doom):
    fast, slow = make_doom("doom_basic", frameskip=4), make_doom("doom_basic", frameskip=1)
    fast.reset(seed=5)
    slow.reset(seed=5)
    observation, reward, *_ = fast.step(2)
    rewards = [slow.step(2) for _ in range(4)]
    np.testing.assert_array_equal(observation, rewards[-1][0])
    assert reward == pytest.approx(sum(result[1] for result in rewards))


def test_killed_game_is_an_error_that_names_the_environment(make_doom):
    env = make_doom("doom_basic")
    env.reset(seed=0)
    (game,) = find_games()
    game.kill()
    with pytest.raises(EnvError, match=r"doom_basic: the game failed in step\(\)"):
        for _ in range(1000):
            env.step(IDLE)
    assert find_games() == []
    env.reset(seed=0)  # a new game starts
    assert env.step(IDLE)[1] == pytest.approx(-0.04)


def test_killed_game_is_noticed_by_reset(make_doom):
    env = make_doom("doom_basic")
    env.reset(seed=0)
    (game,) = find_games()
    game.kill()
    with pytest.raises(EnvError, match=r"doom_basic: the game failed in reset\(\)"):
        for _ in range(1000):
            env.reset()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_game_leaves_requests_to_end_to_its_owner(make_doom, number):
    env = make_doom("doom_basic")
    env.reset(seed=0)
    (game,) = find_games()
    game.send_signal(number)
    time.sleep(0.05)
    for _ in range(10):
        env.step(IDLE)
    assert find_games() == [game]


PLAYS = """
import psutil, threading
from sf_examples.vizdoom import doom_env
from sf_examples.vizdoom.doom_env import DoomEnv
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS
env = DoomEnv(DOOM_SCENARIOS["doom_basic"], VizdoomOptions(), 4)
thread = threading.Thread(target=env.reset)
thread.start()
thread.join()
for _ in range(100):  # the game outlives the thread in which it was begun
    env.step(0)
print(psutil.Process().children(recursive=True)[0].pid, flush=True)
input()
"""


@pytest.mark.skipif(not shutil.which("setpriv"), reason="nobody here can tie a game to its player")
def test_game_does_not_outlive_a_player_that_is_killed():
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PLAYS], stdin=pipe, stdout=pipe, text=True) as player:
        game = psutil.Process(int(player.stdout.readline()))
        assert game.name() == "vizdoom"
        names = [name for name in mapped_shared_memory([game.pid]) if "ViZDoom" in name]
        player.kill()
    game.wait(10)
    for name in names:  # nobody is left to do that
        os.unlink(name)


def test_game_runs_one_thread_without_sound_and_keeps_few_lines_of_its_console(make_doom):
    env = make_doom("doom_basic")
    env.reset(seed=0)
    (game,) = find_games()
    for _ in range(200):
        if env.step(IDLE)[3]:
            env.reset()
    times = sorted(thread.user_time + thread.system_time for thread in game.threads())
    assert sum(times[:-1]) <= 0.02, "only one thread works"
    assert "-nosound" in game.cmdline()
    assert " +con_buffersize 128" in " ".join(game.cmdline())


def test_a_game_is_replaced_after_many_episodes_since_it_keeps_something_of_each(make_doom, monkeypatch):
    monkeypatch.setattr(doom_env, "_MOST_EPISODES", 3)
    env = make_doom("doom_basic")

    def begin(seed, num_episodes):
        pids, observations = [], []
        for number in range(num_episodes):
            observations.append(env.reset(seed=seed if number == 0 else None)[0].tobytes())
            (game,) = find_games()
            pids.append(game.pid)
        return pids, observations

    pids, observations = begin(1, 7)
    assert [pids.index(pid) for pid in pids] == [0, 0, 0, 3, 3, 3, 6]
    begin(2, 2)
    assert begin(1, 7)[1] == observations, "whatever was played before"


def test_games_are_not_all_replaced_at_once():
    envs = [DoomEnv(DOOM_SCENARIOS["doom_basic"], VizdoomOptions(), env_index=index) for index in range(64)]
    limits = sorted(env._most_episodes for env in envs)
    assert limits[0] > doom_env._MOST_EPISODES / 2 and limits[-1] <= doom_env._MOST_EPISODES
    assert all(later - earlier > 10 for earlier, later in itertools.pairwise(limits))


def test_close_ends_the_game_and_may_be_repeated(make_doom):
    env = make_doom("doom_basic")
    env.close()
    env.reset()
    assert len(find_games()) == 1
    env.close()
    env.close()
    assert find_games() == []
    with pytest.raises(EnvError, match=r"doom_basic: step\(\) before reset\(\)"):
        env.step(IDLE)


def test_other_scenario_under_the_same_actions(make_doom, tmp_path):
    source = find_scenario_file("deathmatch.cfg").parent
    shutil.copy(source / "deathmatch.wad", tmp_path)
    shutil.copy(source / "deathmatch.cfg", tmp_path / "mine.cfg")
    env = make_doom("doom_benchmark", doom_scenario=str(tmp_path / "mine.cfg"))
    expected = play(make_doom("doom_benchmark"), 3, 20)
    assert play(env, 3, 20) == expected


def test_other_scenario_without_the_buttons(make_doom):
    with pytest.raises(EnvError, match=r"doom_benchmark: .*basic\.cfg has no button MOVE_FORWARD, MOVE_BACKWARD, TURN"):
        make_doom("doom_benchmark", doom_scenario="basic.cfg")
    assert make_doom("doom_basic", doom_scenario="basic.cfg").action_space.n == 4


def test_missing_map_file_is_an_error_before_the_game_starts(make_doom, tmp_path):
    (tmp_path / "mine.cfg").write_text("doom_scenario_path = gone.wad\navailable_buttons = { ATTACK }\n")
    scenario = DoomScenario(
        name="mine", file=str(tmp_path / "mine.cfg"), actions=(("ATTACK",),), episode_timeout_tics=9
    )
    with pytest.raises(EnvError, match=r"mine: the game failed in reset\(\): .*gone\.wad"):
        make_doom("mine", scenario=scenario).reset()


def test_render_returns_the_frame_before_resizing():
    env = DoomEnv(DOOM_SCENARIOS["doom_basic"], VizdoomOptions(), 4, "rgb_array")
    try:
        env.reset(seed=0)
        assert env.render().shape == (120, 160, 3)
    finally:
        env.close()
