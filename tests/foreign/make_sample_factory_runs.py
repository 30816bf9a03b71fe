"""Makes the runs in this folder with Sample Factory 2.1.1, in a virtual environment of its own.

    python -m venv venv && venv/bin/pip install sample-factory==2.1.1 'numpy<2' 'gymnasium<1'
    venv/bin/python make_sample_factory_runs.py FOLDER

Each is trained for a few seconds and played for 50 recurrent steps, whose inputs and outputs are kept beside its
checkpoint, in `outputs.npz`: what any reader of the checkpoint has to get, too.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import gymnasium
import numpy as np
import torch
from matching_env import MatchingEnv
from sample_factory.algo.utils.rl_utils import prepare_and_normalize_obs
from sample_factory.cfg.arguments import load_from_checkpoint, parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.actor_critic import create_actor_critic
from sample_factory.model.model_utils import get_rnn_size
from sample_factory.train import run_rl

NUM_STEPS, NUM_AGENTS = 50, 3
SMALL = ["--encoder_mlp_layers", "8", "--encoder_conv_mlp_layers", "8", "--rnn_size=6"]
VECTOR = gymnasium.spaces.Box(-1, 1, (5,), np.float32)
IMAGE = gymnasium.spaces.Box(0, 255, (3, 36, 36), np.uint8)
BUTTONS = gymnasium.spaces.Discrete(4)
BOX = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
MANY = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(3), BOX, gymnasium.spaces.Discrete(2)))
BOTH = gymnasium.spaces.Dict({"obs": IMAGE, "measurements": VECTOR})

RUNS = {
    "mlp": (VECTOR, BUTTONS, ["--use_rnn=False"]),
    "gru_two_keys": (BOTH, BUTTONS, ["--obs_scale=255"]),
    "lstm_two_layers": (VECTOR, BOX, ["--rnn_type=lstm", "--rnn_num_layers=2", "--decoder_mlp_layers", "7"]),
    "separate_weights": (
        VECTOR,
        BOX,
        [
            "--use_rnn=False",
            "--actor_critic_share_weights=False",
            "--adaptive_stddev=False",
            "--continuous_tanh_scale=2",
        ],
    ),
    "tuple_actions": (VECTOR, MANY, ["--use_rnn=False", "--adaptive_stddev=False", "--continuous_tanh_scale=1"]),
    "convnet_impala": (IMAGE, BUTTONS, ["--encoder_conv_architecture=convnet_impala", "--use_rnn=False"]),
    "convnet_atari": (
        IMAGE,
        BUTTONS,
        ["--encoder_conv_architecture=convnet_atari", "--use_rnn=False", "--nonlinearity=relu"],
    ),
    "resnet": (IMAGE, BUTTONS, ["--encoder_conv_architecture=resnet_impala", "--use_rnn=False"]),
    "adaptive_rate": (
        VECTOR,
        BUTTONS,
        ["--use_rnn=False", "--lr_schedule=kl_adaptive_epoch", "--normalize_returns=False", "--normalize_input=False"],
    ),
    "matching": (
        VECTOR,
        BUTTONS,
        [
            "--use_rnn=False",
            "--encoder_mlp_layers",
            "16",
            "--learning_rate=0.003",
            "--train_for_env_steps=6000",
            "--save_best_after=100000",
        ],
    ),
    "two_policies": (VECTOR, BUTTONS, ["--use_rnn=False", "--num_policies=2"]),
}


def draw(space: gymnasium.Space):
    """Return a random observation; pictures of large squares, which take little room in a file."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: draw(item) for key, item in space.items()}
    if space.dtype == np.uint8:
        squares = space.np_random.integers(0, 256, (3, 4, 4), dtype=np.uint8)
        return squares.repeat(9, axis=1).repeat(9, axis=2)
    return space.sample()


class RandomEnv(gymnasium.Env):
    """Shows random numbers, and rewards them."""

    def __init__(self, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.num_steps = 0

    def reset(self, **_keywords):
        self.num_steps = 0
        return draw(self.observation_space), {}

    def step(self, _action):
        self.num_steps += 1
        return draw(self.observation_space), float(np.random.rand()), self.num_steps > 19, False, {}


def make(name, _cfg, _env_config, _render_mode=None):
    if name == "matching":
        return MatchingEnv()
    observation_space, action_space, _ = RUNS[name]
    return RandomEnv(observation_space, action_space)


def options(name: str, folder: Path, *, evaluation: bool = False):
    argv = [
        f"--env={name}",
        f"--experiment={name}",
        f"--train_dir={folder}",
        "--device=cpu",
        "--serial_mode=True",
        "--train_for_env_steps=1200",
        "--num_workers=1",
        "--num_envs_per_worker=4",
        "--rollout=16",
        "--batch_size=64",
        "--save_best_after=100",
        "--save_best_every_sec=1",
        "--stats_avg=5",
        "--keep_checkpoints=1",
        "--seed=3",
        *SMALL,
        *RUNS[name][2],
    ]
    parser, _ = parse_sf_args(argv, evaluation=evaluation)
    return parse_full_cfg(parser, argv)


def play(name: str, folder: Path, policy: int) -> dict[str, np.ndarray]:
    """Return 50 steps of observations, action parameters, values and states, and the states they began with."""
    cfg = load_from_checkpoint(options(name, folder, evaluation=True))
    observation_space, action_space, _ = RUNS[name]
    if not isinstance(observation_space, gymnasium.spaces.Dict):
        observation_space = gymnasium.spaces.Dict({"obs": observation_space})
    observation_space.seed(5)
    model = create_actor_critic(cfg, observation_space, action_space)
    model.eval()
    (path,) = (folder / name / f"checkpoint_p{policy}").glob("checkpoint_*.pth")
    model.load_state_dict(torch.load(path, weights_only=False)["model"])
    states = torch.zeros(NUM_AGENTS, get_rnn_size(cfg))
    kept: dict[str, list[np.ndarray]] = {"parameters": [], "values": [], "states": []}
    torch.manual_seed(0)
    for _ in range(NUM_STEPS):
        drawn = [draw(observation_space) for _ in range(NUM_AGENTS)]
        observations = {key: np.stack([each[key] for each in drawn]) for key in observation_space}
        for key, values in observations.items():
            kept.setdefault(f"observation/{key}", []).append(values)
        with torch.no_grad():
            normalized = prepare_and_normalize_obs(
                model, {key: torch.from_numpy(values) for key, values in observations.items()}
            )
            result = model(normalized, states)
        states = result["new_rnn_states"]
        kept["parameters"].append(result["action_logits"].numpy())
        kept["values"].append(result["values"].numpy())
        kept["states"].append(states.numpy())
    return {key: np.stack(values) for key, values in kept.items()}


def returns_of(name: str, folder: Path, num_episodes: int = 200) -> np.ndarray:
    """Return the returns of episodes in which the policy's actions are drawn, as while it was trained."""
    cfg = load_from_checkpoint(options(name, folder, evaluation=True))
    env = make(name, None, None)
    model = create_actor_critic(cfg, gymnasium.spaces.Dict({"obs": env.observation_space}), env.action_space)
    model.eval()
    (path,) = (folder / name / "checkpoint_p0").glob("checkpoint_*.pth")
    model.load_state_dict(torch.load(path, weights_only=False)["model"])
    states, returns = torch.zeros(1, get_rnn_size(cfg)), []
    torch.manual_seed(0)
    for episode in range(num_episodes):
        observation, _ = env.reset(seed=episode)
        is_over, earned = False, 0.0
        while not is_over:
            with torch.no_grad():
                normalized = prepare_and_normalize_obs(model, {"obs": torch.from_numpy(observation[None])})
                action = int(model(normalized, states)["actions"])
            observation, reward, is_over, _, _ = env.step(action)
            earned += reward
        returns.append(earned)
    return np.array(returns)


def forget_moments(folder: Path) -> None:
    """Leave out what takes most of the room in large checkpoints: the optimizer's state, and the best policy."""
    for path in folder.glob("checkpoint_p*/*.pth"):
        state = torch.load(path, weights_only=False)
        state["optimizer"]["state"] = {}
        torch.save(state, path)
        if path.name.startswith("best"):
            path.unlink()


def forget_paths(path: Path, *folders: Path) -> None:
    """Leave out of a configuration where on this machine it was made."""
    text = path.read_text()
    for folder in folders:
        text = text.replace(str(folder), ".")
    options = json.loads(text) | {"git_hash": "unknown", "git_repo_name": "not a git repository"}
    path.write_text(json.dumps(options, indent=2) + "\n")


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    for name in RUNS if len(sys.argv) < 3 else sys.argv[2:]:
        register_env(name, make)
        shutil.rmtree(folder / name, ignore_errors=True)
        run_rl(options(name, folder))
        for policy_folder in (folder / name).glob("checkpoint_p*"):
            policy = int(policy_folder.name.removeprefix("checkpoint_p"))
            told = play(name, folder, policy)
            if name == "matching":
                told["returns"] = returns_of(name, folder)
            np.savez_compressed(policy_folder / "outputs.npz", **told)
        forget_paths(folder / name / "config.json", folder, Path.cwd())
        if "conv" in name or "resnet" in name or "two_keys" in name:
            forget_moments(folder / name)
        for rest in ("sf_log.txt", ".summary", "git.diff"):
            path = folder / name / rest
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
