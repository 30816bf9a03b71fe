"""Atari games by the names their users know: gray images of 84 x 84 pixels, each stacked with those before it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from sample_profiler.errors import EnvError

if TYPE_CHECKING:
    import gymnasium

    from sample_profiler.config import Config
    from sample_profiler.envs import EnvPlacement

__all__ = ["ATARI_DEFAULTS", "ATARI_ENVS", "make_atari_env"]

_GAMES = (
    *("Alien", "Amidar", "Assault", "Asterix", "Asteroids", "Atlantis", "BankHeist", "BattleZone", "BeamRider"),
    *("Berzerk", "Bowling", "Boxing", "Breakout", "Centipede", "ChopperCommand", "CrazyClimber", "Defender"),
    *("DemonAttack", "DoubleDunk", "Enduro", "FishingDerby", "Freeway", "Frostbite", "Gopher", "Gravitar", "Hero"),
    *("IceHockey", "Jamesbond", "Kangaroo", "Krull", "KungFuMaster", "MontezumaRevenge", "MsPacman", "NameThisGame"),
    *("Phoenix", "Pitfall", "Pong", "PrivateEye", "Qbert", "Riverraid", "RoadRunner", "Robotank", "Seaquest"),
    *("Skiing", "Solaris", "SpaceInvaders", "StarGunner", "Surround", "Tennis", "TimePilot", "Tutankham", "UpNDown"),
    *("Venture", "VideoPinball", "WizardOfWor", "YarsRevenge", "Zaxxon"),
)

ATARI_ENVS = {f"atari_{game.lower()}": f"ALE/{game}-v5" for game in _GAMES} | {
    "atari_asteroid": "ALE/Asteroids-v5",
    "atari_kongfumaster": "ALE/KungFuMaster-v5",
    "atari_montezuma": "ALE/MontezumaRevenge-v5",
    "atari_privateye": "ALE/PrivateEye-v5",
}
"""gymnasium's id by our name; four games have a second name that is in use elsewhere."""

ATARI_DEFAULTS = {
    "adam_eps": 1e-5,
    "async_rl": False,
    "batch_size": 256,
    "encoder_conv_architecture": "convnet_atari",
    "env_framestack": 4,
    "env_frameskip": 4,
    "experiment_summaries_interval": 3,
    "exploration_loss_coeff": 0.01,
    "learning_rate": 0.00025,
    "lr_schedule": "linear_decay",
    "max_grad_norm": 0.5,
    "nonlinearity": "relu",
    "num_batches_per_epoch": 4,
    "num_envs_per_worker": 1,
    "num_epochs": 4,
    "num_workers": 8,
    "obs_scale": 255.0,
    # Here and not in a wrapper: the rewards that are shown stay the game's own.
    "reward_clip": 1.0,
    "rollout": 128,
    "train_for_env_steps": 10_000_000,
    "use_rnn": False,
    "worker_num_splits": 1,
}
"""What the family has instead of the flags' own defaults."""


def make_atari_env(
    full_env_name: str, cfg: Config, _env_config: EnvPlacement | None, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """Make one of :data:`ATARI_ENVS`: an episode is a game, and every action is taken as it was chosen.

    Raises:
        EnvError: ale-py or OpenCV is not installed.
    """
    _import_simulation(full_env_name)
    # Here and not above: the training script is imported by processes that never see an environment.
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    # The frames are skipped by the wrapper, which keeps the brighter of the last two: games flicker.
    env = gymnasium.make(
        ATARI_ENVS[full_env_name],
        disable_env_checker=True,
        obs_type="grayscale",  # the wrapper asks the game itself for what it shows: less is made for nobody
        frameskip=1,
        repeat_action_probability=0.0,
        render_mode=render_mode,
    )
    env = AtariPreprocessing(env, frame_skip=cfg.environment.env_frameskip)
    return FrameStackObservation(env, cfg.environment.env_framestack)


@functools.cache
def _import_simulation(full_env_name: str) -> None:
    try:
        import ale_py  # registers the games
        import cv2
    except ImportError as error:
        raise EnvError(
            f"--env={full_env_name} needs {error.name}, which is not installed: install sample-profiler[atari]"
        ) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # else every process greets
    cv2.setNumThreads(1)  # images this small are shrunk sooner than threads begin
