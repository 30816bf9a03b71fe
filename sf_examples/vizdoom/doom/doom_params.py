"""Flags of the ViZDoom family, for a parser of Sample Factory's kind."""

from __future__ import annotations

import argparse

from sample_profiler.compat.settings.arguments import parse_full_cfg, parse_sf_args
from sample_profiler.compat.settings.attributes import AttrDict
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions

__all__ = ["add_doom_env_args", "add_doom_env_eval_args", "default_doom_cfg", "doom_override_defaults"]


def add_doom_env_args(parser: argparse.ArgumentParser) -> None:
    """Add the flags that training has, too."""
    options = VizdoomOptions()
    parser.add_argument("--res_w", type=int, default=options.res_w)
    parser.add_argument("--res_h", type=int, default=options.res_h)
    parser.add_argument("--wide_aspect_ratio", type=_as_bool, default=options.wide_aspect_ratio)
    parser.add_argument("--doom_scenario", default=options.doom_scenario)
    parser.add_argument("--timelimit", type=_as_minutes, default=options.timelimit)
    parser.add_argument("--num_agents", type=int, default=options.num_agents)
    parser.add_argument("--num_humans", type=int, default=options.num_humans)
    parser.add_argument("--num_bots", type=int, default=options.num_bots)
    parser.add_argument("--start_bot_difficulty", type=int, default=None)  # nothing there depends on it, either


def add_doom_env_eval_args(parser: argparse.ArgumentParser) -> None:
    """Add the flags that playing alone has."""
    parser.add_argument("--record_to", default=VizdoomOptions().record_to)


def doom_override_defaults(parser: argparse.ArgumentParser) -> None:
    """Set what the family has instead of the flags' own defaults."""
    parser.set_defaults(**VIZDOOM_DEFAULTS)


def default_doom_cfg(algo: str = "APPO", env: str = "env", experiment: str = "test") -> AttrDict:
    """Return the options of a run of which nothing else is said."""
    argv = [f"--algo={algo}", f"--env={env}", f"--experiment={experiment}"]
    parser, _ = parse_sf_args(argv)
    add_doom_env_args(parser)
    doom_override_defaults(parser)
    return parse_full_cfg(parser, argv)


def _as_bool(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{word!r} is not True or False")
    return word.lower() == "true"


def _as_minutes(word: str) -> float | None:
    return None if word == "None" else float(word)
