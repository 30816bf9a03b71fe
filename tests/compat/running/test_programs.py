"""Programs as people write them for Sample Factory, run by `python -m sample_profiler.compat`."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.whole_run

MAZE = """
import sys
from typing import Optional

import gymnasium as gym
import numpy as np

from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.enjoy import enjoy
from sample_factory.envs.env_utils import TrainingInfoInterface, register_env
from sample_factory.model.encoder import Encoder
from sample_factory.model.model_utils import create_mlp, nonlinearity
from sample_factory.train import make_runner
from sample_factory.utils.utils import log


class Maze(gym.Env, TrainingInfoInterface):
    def __init__(self, name, cfg, env_config, render_mode: Optional[str] = None):
        TrainingInfoInterface.__init__(self)
        assert cfg.maze["walls"] == [1, 2] and "seed" in cfg and cfg["num_gates"] == 4
        self.place = None if env_config is None else (env_config.worker_index, env_config["vector_index"])
        self.observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.render_mode = render_mode

    def reset(self, seed=None, options=None):
        self.num_steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.num_steps += 1
        done = self.num_steps >= 10
        info = {"episode_extra_stats": {"gates": 4}} if done else {}
        return self.observation_space.sample(), float(action), done, False, info


class MazeEncoder(Encoder):
    def __init__(self, cfg, obs_space):
        super().__init__(cfg)
        self.net = create_mlp([cfg.maze_width], obs_space["obs"].shape[0], nonlinearity(cfg))

    def forward(self, obs_dict):
        return self.net(obs_dict["obs"])

    def get_out_size(self):
        return self.cfg.maze_width


class Watcher(AlgoObserver):
    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        self.num_steps = training_iteration_since_resume
        runner.writers[0].add_scalar("maze/steps", self.num_steps, runner.env_steps[0])

    def extra_summaries(self, runner, policy_id, writer, env_steps):
        writer.add_scalar("maze/gates", 4.0, env_steps)

    def on_stop(self, runner):
        log.info("Gates: %s, trained: %s", set(runner.policy_avg_stats["gates"][0]), self.num_steps > 0)


def parse(evaluation=False):
    parser, partial = parse_sf_args(evaluation=evaluation)
    parser.add_argument("--num_gates", type=int, default=3)
    parser.add_argument("--maze_width", type=int, default=8)
    parser.set_defaults(use_rnn=False, batch_size=64, rollout=16, num_workers=1, num_envs_per_worker=2)
    cfg = parse_full_cfg(parser)
    cfg.maze = {"walls": [1, 2]}
    return cfg


def main():
    sys.path.insert(0, ".")  # where there is another package of the name
    register_env("maze", Maze)
    global_model_factory().register_encoder_factory(lambda cfg, obs_space: MazeEncoder(cfg, obs_space))
    if "--play" in sys.argv:
        sys.argv.remove("--play")
        status, reward = enjoy(parse(evaluation=True))
        assert 0 <= reward <= 30
        return status, reward
    cfg, runner = make_runner(parse())
    runner.register_observer(Watcher())
    assert runner.init() == 0
    return runner.run()


if __name__ == "__main__":
    sys.exit(main())
"""


OWN_NETWORK = """
import sys

import gymnasium as gym
import numpy as np
from torch import nn

from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.algo.utils.tensor_dict import TensorDict
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.enjoy import enjoy
from sample_factory.envs.env_utils import TrainingInfoInterface, register_env
from sample_factory.model.actor_critic import ActorCritic
from sample_factory.train import make_runner


class Watcher(AlgoObserver):
    def on_stop(self, runner):
        found = runner.policy_avg_stats["shortened"][0]
        print("Shortened while training:", min(found) < max(found))


class OwnActorCritic(ActorCritic):
    def __init__(self, model_factory, obs_space, action_space, cfg):
        super().__init__(obs_space, action_space, cfg)
        self.encoder = model_factory.make_model_encoder_func(cfg, obs_space)
        self.encoders = [self.encoder]
        self.core = model_factory.make_model_core_func(cfg, self.encoder.get_out_size())
        self.value_net = nn.Sequential(nn.Linear(self.core.get_out_size(), 16), nn.Tanh(), nn.Linear(16, 1))
        self.action_parameterization = self.get_action_parameterization(self.core.get_out_size())
        self.apply(self.initialize_weights)

    def forward_head(self, normalized_obs_dict):
        return self.encoder(normalized_obs_dict)

    def forward_core(self, head_output, rnn_states):
        return self.core(head_output, rnn_states)

    def forward_tail(self, core_output, values_only, sample_actions):
        result = TensorDict(values=self.value_net(core_output).squeeze())
        if not values_only:
            result["action_logits"], self.last_action_distribution = self.action_parameterization(core_output)
            self._maybe_sample_actions(sample_actions, result)
        return result


class Guess(gym.Env, TrainingInfoInterface):
    def __init__(self, name, cfg, env_config, render_mode=None):
        TrainingInfoInterface.__init__(self)
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.render_mode = render_mode
        self.length = cfg.length

    def reset(self, seed=None, options=None):
        self.num_steps = 0
        self.steps = max(2, self.length - self.training_info["approx_total_training_steps"] // 64)  # annealed
        return self._observe(), {}

    def step(self, action):
        done = self._count()
        info = {"episode_extra_stats": {"shortened": self.length - self.steps}} if done else {}
        return self._observe(), float(action), done, False, info

    def _count(self):
        self.num_steps += 1
        return self.num_steps >= self.steps

    def _observe(self):
        return np.full(2, self.num_steps / 10, np.float32)


class Guesses(Guess):
    num_agents, is_multiagent = 2, True

    def reset(self, seed=None, options=None):
        observation, info = super().reset()
        return [observation] * 2, [info] * 2

    def step(self, actions):
        observation, reward, done, cut, info = super().step(actions[0])
        if done:
            observation, _ = super().reset()
        return [observation] * 2, [reward] * 2, [done] * 2, [cut] * 2, [dict(info), dict(info)]


def main():
    plays = "--play" in sys.argv
    sys.argv[1:] = [word for word in sys.argv[1:] if word != "--play"]
    parser, _ = parse_sf_args(evaluation=plays)
    parser.add_argument("--length", type=int, default=8)
    parser.set_defaults(rnn_size=16, batch_size=64, rollout=16, num_workers=1, num_envs_per_worker=2)
    cfg = parse_full_cfg(parser)
    register()
    if plays:
        return enjoy(cfg)
    _, runner = make_runner(cfg)
    runner.register_observer(Watcher())
    return runner.run()


def register():
    register_env("guess", lambda *arguments: gym.wrappers.TimeLimit(Guess(*arguments), 99))
    register_env("guesses", Guesses)
    global_model_factory().register_actor_critic_factory(
        lambda cfg, obs_space, action_space: OwnActorCritic(global_model_factory(), obs_space, action_space, cfg)
    )


if __name__ == "__main__":
    sys.exit(main())
"""


LOOP = """
import numpy as np
from own import register
from sample_profiler import load_policy

register()
policy = load_policy("default_experiment")
actions, _ = policy.act(np.zeros((3, 2), np.float32))
print(f"Trained on {policy.trained_frames} frames, {len(actions)} actions")
"""


def run(folder, *words):
    command = [sys.executable, "-m", "sample_profiler.compat", *words, "--algo=APPO", "--device=cpu"]
    command += [] if any(word.startswith("--env=") for word in words) else ["--env=maze"]
    command += [f"--train_dir={folder}", "--with_wandb=False", "--seed=3"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_script_trains_resumes_and_plays(tmp_path):
    (tmp_path / "maze.py").write_text(MAZE)
    (tmp_path / "sample_factory").mkdir()
    (tmp_path / "sample_factory" / "__init__.py").write_text("raise ImportError('that of a checkout')")
    status, told = run(tmp_path, "maze.py", "--num_gates=4", "--train_for_env_steps=256")
    assert status == 0, told
    assert "Gates: {4.0}, trained: True" in told
    folder = tmp_path / "default_experiment"
    assert list((folder / "checkpoint_p0").glob("checkpoint_*_256.pth"))
    assert list((folder / "summary" / "0").iterdir())
    # As a module now; --num_gates=4 is that of the run that is resumed.
    status, told = run(tmp_path, "-m", "maze", "--train_for_env_steps=512", "--serial_mode=True")
    assert status == 0, told
    assert list((folder / "checkpoint_p0").glob("checkpoint_*_512.pth"))
    status, told = run(tmp_path, "maze.py", "--play", "--no_render", "--max_num_episodes=2")
    assert status == 0, told
    assert "Mean reward" in told and "over 2 episodes" in told


@pytest.mark.parametrize("env", ["guess", "guesses"])
def test_a_network_of_ones_own_trains_and_plays_in_an_environment_that_is_told_of_it(env, tmp_path):
    (tmp_path / "own.py").write_text(OWN_NETWORK)
    flags = (f"--env={env}", "--serial_mode=True", "--async_rl=False")
    status, told = run(tmp_path, "own.py", "--train_for_env_steps=512", *flags)
    assert status == 0, told
    assert "Shortened while training: True" in told
    (checkpoint,) = (tmp_path / "default_experiment" / "checkpoint_p0").glob("checkpoint_*_512.pth")
    weights = torch.load(checkpoint, weights_only=True)["model"]
    assert "own.actor_critic.value_net.0.weight" in weights
    # 512 frames shorten each episode as far as they can: from 8 to 2 steps.
    status, told = run(tmp_path, "own.py", "--play", "--no_render", "--max_num_episodes=4", f"--env={env}")
    assert status == 0, told
    assert "Mean shortened 6.000" in told
    # Its policy is loaded where the network is registered; commands that know nothing of the program say so.
    (tmp_path / "loop.py").write_text(LOOP)
    status, told = run(tmp_path, "loop.py")
    assert status == 0, told
    assert "Trained on 512 frames, 3 actions" in told
    for command in ("enjoy", "eval"):
        words = [sys.executable, "-m", "sample_profiler", command, f"--env={env}", f"--train_dir={tmp_path}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        (line,) = done.stderr.strip().splitlines()
        assert "by `python -m sample_profiler.compat` with that program's own scripts" in line


def test_what_is_asked_for_and_not_there_fails_with_one_line(tmp_path):
    (tmp_path / "maze.py").write_text(MAZE.replace("    assert runner.init() == 0\n", ""))
    status, told = run(tmp_path, "maze.py", "--num_gates=4", "--with_pbt=True")
    assert status == 1
    assert "there is no population-based training here" in told
    assert not (tmp_path / "default_experiment").exists()


def test_without_a_program_the_usage_is_shown():
    done = subprocess.run([sys.executable, "-m", "sample_profiler.compat"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Usage: python -m sample_profiler.compat" in done.stderr


def test_a_run_of_theirs_is_imported_resumed_and_played_by_their_code(tmp_path):
    source = Path(__file__).parents[2] / "foreign" / "sample_factory_runs" / "mlp"
    imported = [sys.executable, "-m", "sample_profiler", "import-checkpoint", str(source), str(tmp_path / "mlp")]
    done = subprocess.run(imported, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Policy 0: trained on 1,280 frames" in done.stdout
    program = (
        MAZE.replace('register_env("maze"', 'register_env("mlp"')
        .replace("(3,)", "(5,)")
        .replace("Discrete(2)", "Discrete(4)")
    )
    program = program.replace(
        "    global_model_factory().register_encoder_factory(lambda cfg, obs_space: MazeEncoder(cfg, obs_space))\n", ""
    )
    (tmp_path / "theirs.py").write_text(program)
    flags = ("--num_gates=4", "--experiment=mlp", "--env=mlp")
    command = [sys.executable, "-m", "sample_profiler.compat", "theirs.py", f"--train_dir={tmp_path}", *flags]
    told = subprocess.run(
        [*command, "--train_for_env_steps=1400"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert list((tmp_path / "mlp" / "checkpoint_p0").glob("checkpoint_*_14*.pth"))
    told = subprocess.run(
        [*command, "--play", "--no_render", "--max_num_episodes=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
