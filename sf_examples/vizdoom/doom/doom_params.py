"""Flags of the ViZDoom family, for a parser of Sample Factory's kind."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from sample_profiler.compat.settings.arguments import parse_full_cfg, parse_sf_args
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.config.foreign_flags import FOREIGN_FLAGS, describe_foreign
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions

__all__ = ["add_doom_env_args", "add_doom_env_eval_args", "default_doom_cfg", "doom_override_defaults"]

_OF_PLAYING = ("record_to",)


def add_doom_env_args(parser: argparse.ArgumentParser) -> None:
    """Add the flags that training has, too; those of matches take the values that ask for nothing."""
    options = VizdoomOptions()
    parser.add_argument("--res_w", type=int, default=options.res_w)
    parser.add_argument("--res_h", type=int, default=options.res_h)
    parser.add_argument("--wide_aspect_ratio", type=_as_bool, default=options.wide_aspect_ratio)
    parser.add_argument("--doom_scenario", default=options.doom_scenario)
    parser.add_argument("--timelimit", type=_as_minutes, default=options.timelimit)
    _add_harmless(parser, lambda name: name not in (*_OF_PLAYING, "timelimit"))


def add_doom_env_eval_args(parser: argparse.ArgumentParser) -> None:
    """Add the flags that playing alone has."""
    _add_harmless(parser, lambda name: name in _OF_PLAYING)


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


def _add_harmless(parser: argparse.ArgumentParser, is_wanted: Callable[[str], bool]) -> None:
    for name, foreign in FOREIGN_FLAGS.items():
        if foreign.is_of_doom and is_wanted(name):
            parser.add_argument(f"--{name}", type=_Harmless(name), default=foreign.default)


class _Harmless:
    """Reads the value of a flag that is there for values alone that ask for nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, word: str) -> Any:
        foreign = FOREIGN_FLAGS[self._name]
        if not foreign.allows([word]):
            raise argparse.ArgumentTypeError(describe_foreign(self._name))
        return foreign.default
