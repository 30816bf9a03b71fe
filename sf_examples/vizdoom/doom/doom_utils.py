"""ViZDoom's environments, as a program registers them that was written for Sample Factory."""

from __future__ import annotations

from typing import Any

from sample_profiler.config import FaultOptions
from sample_profiler.errors import UnknownEnvError
from sf_examples.vizdoom.doom_demos import find_demo_folder
from sf_examples.vizdoom.doom_matches import DOOM_MATCHES, DoomMatch
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS, DoomScenario

__all__ = ["DOOM_ENVS", "doom_env_by_name", "make_doom_env", "make_doom_env_from_spec"]

DOOM_ENVS: list[DoomScenario | DoomMatch] = [*DOOM_SCENARIOS.values(), *DOOM_MATCHES.values()]
"""Scenarios and matches; each has a `name`."""


def doom_env_by_name(name: str) -> DoomScenario | DoomMatch:
    """Return what an environment plays.

    Raises:
        UnknownEnvError: There is none of that name.
    """
    for spec in DOOM_ENVS:
        if spec.name == name:
            return spec
    raise UnknownEnvError(f"there is no {name} here: there are {', '.join(spec.name for spec in DOOM_ENVS)}")


def make_doom_env(env_name: str, cfg: Any, env_config: Any, render_mode: str | None = None, **_options: Any) -> Any:
    """Make an environment by its name."""
    return make_doom_env_from_spec(doom_env_by_name(env_name), env_name, cfg, env_config, render_mode)


def make_doom_env_from_spec(
    spec: DoomScenario | DoomMatch,
    _env_name: str,
    cfg: Any,
    env_config: Any,
    render_mode: str | None = None,
    **_options: Any,
) -> Any:
    """Make an environment.

    Args:
        spec: What it plays.
        cfg: Options: size of the pictures, frameskip and so on.
        env_config: Where it will run; None: nowhere in particular.
        render_mode: As in gymnasium.
    """
    from sf_examples.vizdoom.doom_env import DoomEnv  # here: programs are imported by processes without games
    from sf_examples.vizdoom.doom_match_env import DoomMatchEnv, as_players

    options = VizdoomOptions(
        res_w=cfg.res_w,
        res_h=cfg.res_h,
        wide_aspect_ratio=cfg.wide_aspect_ratio,
        doom_scenario=cfg.get("doom_scenario"),
        timelimit=cfg.get("timelimit"),
        num_agents=cfg.get("num_agents", -1),
        num_bots=cfg.get("num_bots", -1),
        num_humans=cfg.get("num_humans", 0),
    )
    demos = find_demo_folder(cfg.get("record_to"), cfg.experiment, env_config, plays=False)
    env_index = None if env_config is None else env_config.env_id
    if isinstance(spec, DoomMatch):
        return as_players(DoomMatchEnv(spec, options, cfg.env_frameskip, render_mode, env_index, demos))
    patience_s = cfg.get("hang_timeout", FaultOptions().hang_timeout)
    return DoomEnv(spec, options, cfg.env_frameskip, render_mode, env_index, patience_s, demos)
