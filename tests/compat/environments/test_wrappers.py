"""Wrappers that environments of pictures are built from."""

import copy
import importlib
import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.compat.environments import registry
from sample_profiler.compat.environments.atari import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    NoopResetEnv,
)
from sample_profiler.compat.environments.older_gymnasium import supply_older_names
from sample_profiler.compat.environments.pettingzoo import PettingZooParallelEnv
from sample_profiler.compat.environments.spaces import Discretized
from sample_profiler.compat.environments.wrappers import (
    EpisodeCounterWrapper,
    PixelFormatChwWrapper,
    RecordingWrapper,
    ResizeWrapper,
    RewardScalingWrapper,
    TimeLimitWrapper,
)
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.errors import EnvError


class Ale:
    def __init__(self):
        self.num_lives = 3

    def lives(self):
        return self.num_lives


class Game(gymnasium.Env):
    """Shows the number of its frame in one of two pixels; loses a life every five frames."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 255, (8, 6, 3), np.uint8)
        self.action_space = spaces.Discrete(4)
        self.ale = Ale()
        self.taken = []

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "LEFT", "RIGHT"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frame, self.ale.num_lives, self.taken = 0, 3, []
        return self.picture(), {}

    def step(self, action):
        self.taken.append(action)
        self.frame += 1
        self.ale.num_lives = 3 - self.frame // 5
        return self.picture(), 5.0, self.ale.num_lives == 0, False, {"num_frames": 2}

    def picture(self):
        picture = np.zeros((8, 6, 3), np.uint8)
        picture[self.frame % 2, 0] = self.frame
        return picture


def test_the_beginning_of_a_game():
    env = NoopResetEnv(Game(), noop_max=3)
    env.reset(seed=1)
    assert 1 <= len(env.unwrapped.taken) <= 3 and set(env.unwrapped.taken) == {0}
    env = FireResetEnv(Game())
    env.reset()
    assert env.unwrapped.taken == [1, 2]


def test_an_episode_is_a_life_and_the_game_goes_on():
    env = EpisodicLifeEnv(Game())
    env.reset()
    lengths = []
    for _ in range(3):
        for step in range(1, 20):
            *_, terminated, _, _ = env.step(2)
            if terminated:
                lengths.append(step)
                break
        env.reset()
    assert lengths == [5, 4, 4]  # beginning with the next life takes a step
    assert env.unwrapped.frame == 0, "all lives were lost"


def test_the_brighter_one_of_the_last_two_frames():
    env = ClipRewardEnv(MaxAndSkipEnv(Game(), skip=4))
    env.reset()
    picture, reward, *_ = env.step(0)
    assert picture[0, 0, 0] == 4 and picture[1, 0, 0] == 3 and reward == 1.0


def test_pictures_get_another_size_and_order():
    env = PixelFormatChwWrapper(ResizeWrapper(Game(), 12, 16, grayscale=False))
    assert env.observation_space.shape == env.reset()[0].shape == (3, 16, 12)
    gray = ResizeWrapper(Game(), 12, 16, add_channel_dim=True)
    assert gray.observation_space.shape == gray.step(0)[0].shape if gray.reset() else False
    with pytest.raises(EnvError, match="no pictures"):
        PixelFormatChwWrapper(env)


def test_rewards_lengths_and_numbers_of_episodes():
    env = EpisodeCounterWrapper(RewardScalingWrapper(TimeLimitWrapper(Game(), limit=6), 0.1))
    for episode in range(2):
        env.reset()
        results = [env.step(0) for _ in range(3)]  # of two frames each
        assert [truncated for *_, truncated, _ in results] == [False, False, True]
        assert results[-1][1] == 0.5
        assert results[-1][4]["episode_extra_stats"] == {"episode_number": episode}


def test_episodes_are_recorded(tmp_path):
    env = RecordingWrapper(Game(), str(tmp_path), 0)
    for _ in range(2):
        env.reset()
        env.step(np.int64(3))
    env.close()
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == ["ep_000_p0_r5.00", "ep_001_p0_r5.00"]
    assert json.loads((tmp_path / folders[0] / "actions.json").read_text()) == [3]
    assert (tmp_path / folders[0] / "00000.png").exists()
    assert env.unwrapped.record_to == str(tmp_path)


def test_numbers_chosen_from_a_few():
    space = Discretized(11, -1.0, 1.0)
    assert [space.to_continuous(action) for action in (0, 5, 10)] == [-1.0, 0.0, 1.0]


def test_older_names():
    supply_older_names()
    assert importlib.import_module("gymnasium.wrappers.frame_stack").FrameStack is gymnasium.wrappers.FrameStack
    env = gymnasium.wrappers.FrameStack(gymnasium.make("CartPole-v1"), num_stack=3)
    assert env.reset()[0].shape == (3, 4)
    with pytest.raises(gymnasium.error.NameNotFound):
        gymnasium.make("CartPohl-v1")
    assert env.gravity == env.unwrapped.gravity
    assert copy.deepcopy(env).gravity == env.gravity
    for name in ("lift", "_lift"):
        assert not hasattr(env, name)


def test_games_that_registered_themselves_are_known():
    pytest.importorskip("ale_py")
    program = (
        "import sys, gymnasium, sample_profiler.compat\n"
        "sample_profiler.compat.install()\n"
        "assert 'ale_py' not in sys.modules\n"
        "print(gymnasium.make('BeamRiderNoFrameskip-v4').spec.id)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "BeamRiderNoFrameskip-v4", done.stderr


class TakingTurns:
    """Two players by PettingZoo's parallel interface; an episode has two turns."""

    possible_agents = ("x", "o")
    metadata = None

    def observation_space(self, agent):
        return spaces.Dict({"observation": spaces.Box(0, 9, (1,)), "action_mask": spaces.Box(0, 1, (2,), np.int8)})

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.turn = list(self.possible_agents), 0
        return self.shown(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.turn += 1
        is_over = self.turn == 2
        shown = self.shown()
        self.agents = [] if is_over else self.agents
        infos = {agent: {"active_agent": "x"} for agent in shown}
        ends = dict.fromkeys(shown, is_over)
        return shown, dict.fromkeys(shown, 1.0), ends, dict.fromkeys(shown, False), infos

    def shown(self):
        return {
            a: {"observation": np.full(1, self.turn, np.float32), "action_mask": np.ones(2, np.int8)}
            for a in self.agents
        }


def test_players_of_pettingzoo_reset_themselves_and_wait_for_their_turn():
    env = PettingZooParallelEnv(TakingTurns())
    assert set(env.observation_space.spaces) == {"obs", "action_mask"} and env.num_agents == 2
    observations, _ = env.reset()
    assert observations[0]["obs"] == 0
    observations, rewards, terminated, _, infos = env.step([0, 1])
    assert (rewards, terminated, [info["is_active"] for info in infos]) == ([1.0, 1.0], [False, False], [True, False])
    observations, _, terminated, _, _ = env.step([0, 1])
    assert terminated == [True, True] and observations[1]["obs"] == 0


def test_episodes_are_numbered_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(registry, "_creators", {"cart": lambda *_: gymnasium.make("CartPole-v1")})
    for cfg, numbers in ((AttrDict(episode_counter=True), [0, 1]), (AttrDict(), [])):
        env, found = registry.create_env("cart", cfg), []
        for _ in range(2):
            env.reset(seed=1)
            info, is_over = {}, False
            while not is_over:
                *_, is_over, _, info = env.step(1)
            found += info.get("episode_extra_stats", {}).values()
        assert found == numbers
