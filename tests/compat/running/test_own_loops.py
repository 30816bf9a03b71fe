"""A program as people write them for Sample Factory: a core of its own, agents as arrays, a loop that plays them."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.whole_run

PROGRAM = """
import sys

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from sample_factory.algo.learning.learner import Learner
from sample_factory.algo.sampling.batched_sampling import preprocess_actions
from sample_factory.algo.utils.action_distributions import argmax_actions
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.algo.utils.env_info import extract_env_info
from sample_factory.algo.utils.make_env import make_env_func_batched
from sample_factory.algo.utils.rl_utils import make_dones, prepare_and_normalize_obs
from sample_factory.algo.utils.tensor_utils import unsqueeze_tensor
from sample_factory.cfg.arguments import load_from_checkpoint, parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.huggingface.huggingface_utils import generate_replay_video, push_to_hf
from sample_factory.model.actor_critic import create_actor_critic
from sample_factory.model.core import ModelCore
from sample_factory.model.model_utils import get_rnn_size
from sample_factory.train import run_rl
from sample_factory.utils.attr_dict import AttrDict
from sample_factory.utils.timing import Timing
from sample_factory.utils.utils import log


class Flock(gym.Env):
    num_agents = 3

    def __init__(self, *_arguments):
        self.observation_space = gym.spaces.Dict(
            obs=gym.spaces.Box(-1, 1, (4,), np.float32), near=gym.spaces.Box(-1, 1, (2,), np.float32)
        )
        self.action_space = gym.spaces.Discrete(3)

    def observe(self):
        return {"obs": np.full((3, 4), self.num_steps / 9, np.float32), "near": np.zeros((3, 2), np.float32)}

    def reset(self, **kwargs):
        self.num_steps = 0
        return self.observe(), {}

    def step(self, actions):
        assert len(actions) == 3
        self.num_steps += 1
        is_over = np.full(3, self.num_steps == 9)
        if is_over.all():
            self.reset()
        return self.observe(), np.asarray(actions, np.float32), is_over, np.zeros(3, bool), [{}] * 3


class OwnCore(ModelCore):
    def __init__(self, cfg, input_size):
        super().__init__(cfg)
        self.core_output_size = cfg.rnn_size
        self.gru = nn.GRU(input_size, cfg.rnn_size)

    def forward(self, head_output, rnn_states):
        is_step = torch.is_tensor(head_output)
        inputs = head_output.unsqueeze(0) if is_step else head_output
        outputs, states = self.gru(inputs, rnn_states.unsqueeze(0).contiguous())
        return outputs.squeeze(0) if is_step else outputs, states.squeeze(0)


def play(cfg):
    cfg = load_from_checkpoint(cfg)
    env = make_env_func_batched(cfg, env_config=AttrDict(worker_index=0, vector_index=0, env_id=0))
    env_info = extract_env_info(env, cfg)
    actor_critic = create_actor_critic(cfg, env.observation_space, env.action_space)
    actor_critic.eval()
    actor_critic.model_to_device(torch.device("cpu"))
    assert isinstance(actor_critic.core.core, OwnCore)
    checkpoints = Learner.get_checkpoints(Learner.checkpoint_dir(cfg, cfg.policy_index), "checkpoint_*")
    actor_critic.load_state_dict(Learner.load_checkpoint(checkpoints, torch.device("cpu"))["model"])
    timing = Timing()
    obs, _ = env.reset()
    states = torch.zeros(env.num_agents, get_rnn_size(cfg))
    num_ends, rewards = 0, 0
    with torch.no_grad(), timing.timeit("played"):
        while num_ends < 2:
            outputs = actor_critic(prepare_and_normalize_obs(actor_critic, obs), states)
            actions = argmax_actions(actor_critic.action_distribution())
            actions = preprocess_actions(env_info, unsqueeze_tensor(actions, dim=-1))
            states = outputs["new_rnn_states"]
            obs, reward, terminated, truncated, infos = env.step(actions)
            rewards += reward.mean().item()
            if make_dones(terminated, truncated).all():
                num_ends += 1
                states[:] = 0
    log.info("Played two episodes: %s of 36, %s", rewards, timing.played > 0)


def main():
    plays = "--play" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--play"]
    register_env("flock", Flock)
    global_model_factory().register_model_core_factory(OwnCore)
    parser, _ = parse_sf_args(evaluation=plays)
    parser.set_defaults(rnn_size=12, encoder_mlp_layers=[16], batch_size=96, rollout=16, num_workers=1)
    cfg = parse_full_cfg(parser)
    return play(cfg) if plays else run_rl(cfg)


if __name__ == "__main__":
    sys.exit(main())
"""


def test_a_core_of_ones_own_trains_and_a_loop_of_ones_own_plays_it(tmp_path):
    (tmp_path / "flock.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "sample_profiler.compat", "flock.py", "--algo=APPO", "--env=flock", "--seed=1"]
    command += ["--device=cpu", f"--train_dir={tmp_path}", "--serial_mode=True", "--async_rl=False"]
    for words, expected in ((["--train_for_env_steps=960"], "Collected"), (["--play"], "of 36, True")):
        done = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert expected in done.stdout + done.stderr
