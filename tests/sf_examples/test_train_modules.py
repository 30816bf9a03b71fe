"""The training scripts: what they import, register and hand to training."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sample_profiler.envs import registry
from sample_profiler.envs.gymnasium_ids import gym_defaults
from sample_profiler.model import registry as model_registry
from sf_examples.atari import train_atari
from sf_examples.atari.atari_env import ATARI_ENVS
from sf_examples.brax import train_brax
from sf_examples.brax.brax_env import BRAX_ENVS
from sf_examples.brax.brax_options import BraxOptions
from sf_examples.custom import train_custom_env, train_own_actor_critic, two_agents
from sf_examples.envpool import train_envpool
from sf_examples.envpool.envpool_env import EnvPoolOptions
from sf_examples.gym import train_gym, train_gym_vector
from sf_examples.gymnax import train_gymnax
from sf_examples.gymnax.gymnax_env import GymnaxOptions
from sf_examples.isaacgym_examples import train_isaacgym
from sf_examples.isaacgym_examples.isaacgym_tasks import ISAACGYM_TASKS, IsaacGymOptions
from sf_examples.mujoco import train_mujoco
from sf_examples.mujoco.mujoco_env import MUJOCO_ENVS
from sf_examples.vectors.device_options import DeviceOptions
from sf_examples.vectors.vector_defaults import VECTOR_DEFAULTS, vector_defaults
from sf_examples.vizdoom import train_vizdoom
from sf_examples.vizdoom.doom_matches import DOOM_MATCHES
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS

ROOT = Path(__file__).parents[2]
MODULES = (
    "atari.train_atari",
    "custom.curriculum",
    "custom.evaluator",
    "custom.train_custom_env",
    "custom.train_own_actor_critic",
    "custom.two_agents",
    "envpool.train_envpool",
    "brax.train_brax",
    "gym.train_gym",
    "gym.train_gym_vector",
    "gymnax.train_gymnax",
    "isaacgym_examples.train_isaacgym",
    "mujoco.train_mujoco",
    "vizdoom.train_vizdoom",
)


@pytest.fixture
def calls(monkeypatch):
    """Stand in for training and playing; collect what they were called with."""
    received = []

    def train(argv=None, *, extra_parts=(), defaults=None):
        received.append((argv, tuple(extra_parts), dict(defaults or {})))
        return 7

    for name in ("train", "enjoy"):
        module = ModuleType(f"sample_profiler.cli.{name}")
        setattr(module, name, train)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(registry, "_makers", {})
    monkeypatch.setattr(registry, "_fallbacks", [])
    monkeypatch.setattr(model_registry, "_makers", {})
    return received


@pytest.mark.parametrize("module", MODULES)
def test_import_brings_in_neither_torch_nor_a_simulation(module):
    heavy = ("torch", "vizdoom", "mujoco", "pygame", "ale_py", "cv2", "jax", "envpool", "gymnax")
    code = f"import sys, sf_examples.{module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert result.stdout.strip() == "[]", result.stderr


def test_vizdoom(calls):
    assert train_vizdoom.main(["--env=doom_basic"]) == 7
    argv, parts, defaults = calls[0]
    assert (argv, parts) == (["--env=doom_basic"], (VizdoomOptions,))
    assert defaults["env_frameskip"] == 4
    assert registry.registered_envs() == sorted([*DOOM_SCENARIOS, *DOOM_MATCHES])


def test_mujoco(calls):
    assert train_mujoco.main() == 7
    assert calls[0][0] is None
    assert calls[0][2]["learning_rate"] == 0.00295
    assert registry.registered_envs() == sorted(MUJOCO_ENVS)


def test_atari(calls):
    assert train_atari.main(["--env=atari_pong"]) == 7
    assert calls[0][2]["learning_rate"] == 0.00025
    assert registry.registered_envs() == sorted(ATARI_ENVS)


def test_gym(calls):
    assert train_gym.main([]) == 7
    train_gym.main([])
    assert len(registry._fallbacks) == 1, "calling it twice from one script adds nothing"
    assert calls[0][2]["use_rnn"] is False
    train_gym.main(["--seed=1", "--env", "Acrobot-v1"])
    assert calls[2][2] == gym_defaults(["--env=Acrobot-v1"]) != calls[0][2]


def test_gym_vectors(calls):
    assert train_gym_vector.main(["--env=CartPole-v1"]) == 7
    argv, parts, defaults = calls[0]
    assert (argv, parts) == (["--env=CartPole-v1"], (train_gym_vector.VectorOptions,))
    assert defaults["batched_sampling"] is True
    assert registry._find_maker("CartPole-v1") is train_gym_vector.make_vector


@pytest.mark.parametrize("module", [train_custom_env, two_agents, train_own_actor_critic])
def test_custom_environments_need_no_flags(calls, module):
    assert module.main(["--seed=1"]) == 7
    assert calls[0][0] == ["--seed=1"]
    assert calls[0][2]["env"].startswith("custom_")


def test_example_is_short():
    assert len((ROOT / "sf_examples/custom/train_custom_env.py").read_text().splitlines()) < 60


def test_brax(calls):
    assert train_brax.main(["--env=ant"]) == 7
    argv, parts, defaults = calls[0]
    assert (argv, parts) == (["--env=ant"], (BraxOptions, DeviceOptions))
    assert (defaults["rollout"], defaults["serial_mode"], defaults["batched_sampling"]) == (32, True, True)
    assert registry.registered_envs() == sorted(BRAX_ENVS)


@pytest.mark.parametrize(
    ("argv", "layers", "rollout", "frames"),
    [
        (["--env=Ant", "--experiment=igeAnt"], (256, 128, 64), 16, 10_000_000),
        (["--experiment=any", "--env", "Humanoid"], (400, 200, 100), 32, 1_310_000_000),
        (["--experiment=any"], (256, 128, 64), 16, 10_000_000),
        (["--env=Nothing"], (256, 128, 64), 16, 10_000_000),
    ],
)
def test_isaac_gym_has_the_settings_of_its_task(calls, argv, layers, rollout, frames):
    assert train_isaacgym.main(argv) == 7
    received, parts, defaults = calls[0]
    assert (received, parts) == (argv, (IsaacGymOptions, DeviceOptions))
    found = defaults["encoder_mlp_layers"], defaults["rollout"], defaults["train_for_env_steps"]
    assert found == (layers, rollout, frames)
    assert defaults["batch_size"] * defaults["num_batches_per_epoch"] == (131072 if rollout == 32 else 65536)
    assert registry.registered_envs() == sorted(ISAACGYM_TASKS)


def test_envpool(calls):
    assert train_envpool.main(["--env=CartPole-v1"]) == 7
    assert calls[0][1:] == ((EnvPoolOptions,), vector_defaults(["--env=CartPole-v1"]))
    train_envpool.main(["--env=Ant-v5"])
    assert calls[1][2] == VECTOR_DEFAULTS != calls[0][2]


def test_gymnax(calls):
    assert train_gymnax.main(["--env=CartPole-v1"]) == 7
    assert calls[0] == (["--env=CartPole-v1"], (GymnaxOptions, DeviceOptions), vector_defaults(["--env=CartPole-v1"]))


@pytest.mark.parametrize(
    "family",
    ["atari", "brax", "envpool", "gym", "gym.gym_vector", "gymnax", "isaacgym_examples.isaacgym", "mujoco", "vizdoom"],
)
def test_what_was_trained_is_played_with_the_same_flags(calls, family):
    folder, _, name = family.partition(".")
    for program in ("train", "enjoy"):
        module = importlib.import_module(f"sf_examples.{folder}.{program}_{name or folder}")
        assert module.main(["--env=Ant"]) == 7
    (argv, parts, defaults), played = calls
    assert played[:2] == (argv, parts)
    assert played[2] == defaults | ({"eval_env_frameskip": 1} if family == "vizdoom" else {})
