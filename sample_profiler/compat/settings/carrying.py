"""Owns the way of Sample Factory's options into a run here, and back to the code that reads them in its processes.

What is a flag here becomes that flag; all else travels as one text, in which every other option is kept. So a run that
is resumed has those of the run before, but for what is on the command line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sample_profiler.cli.common.program import Program
from sample_profiler.compat.settings.arguments import SHOWN_DEFAULTS, foreign_defaults, shown_default
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.config import Config, show_value
from sample_profiler.config.assembly import all_flags
from sample_profiler.config.flags import Flag
from sample_profiler.config.foreign_flags import FOREIGN_FLAGS, describe_foreign
from sample_profiler.config.parts import EvaluationOptions, RunOptions
from sample_profiler.errors import ConfigError
from sample_profiler.foreign.options import CARRIED_KEY
from sample_profiler.model.registry import registered_maker
from sample_profiler.run_folder import RunFolder, read_config_file

__all__ = ["CARRIED", "CarriedOptions", "carried_in", "program_of", "run_folder_of", "view_of"]

CARRIED = CARRIED_KEY
"""Flag of the text in which they travel."""

_ABOUT_THE_COMMAND = ("cli_args", "command_line", "git_hash", "git_repo_name", "help", "redefined_flags")


@dataclass(frozen=True, kw_only=True)
class CarriedOptions:
    """Options that only code written for Sample Factory reads."""

    sample_factory_options: str = "{}"
    """Every option that is no flag here, as JSON; set by sample_profiler.compat."""

    def beside_flags(self, config: Config) -> dict[str, Any]:
        """Return every option by its name: so programs find them that read `config.json` themselves.

        Args:
            config: Of the run.
        """
        return {name: value for name, value in view_of(config).items() if _is_finite(value)}


def run_folder_of(cfg: Mapping[str, Any]) -> RunFolder:
    """Return the folder of the run that options are of."""
    return RunFolder(RunOptions(env="", experiment=cfg["experiment"], train_dir=str(cfg["train_dir"])).folder)


def program_of(cfg: Mapping[str, Any], *, plays: bool = False) -> Program:
    """Return what `train` or `enjoy` is called with.

    Values of the command line stay such; others that differ from the flags' own defaults are those of the environment
    family.

    Args:
        cfg: Options as :func:`~sample_profiler.compat.settings.arguments.parse_full_cfg` returns them, perhaps changed.
        plays: Whether the options of playing are among them.

    Raises:
        ConfigError: Something is asked for that is not there.
    """
    parts = (CarriedOptions, EvaluationOptions) if plays else (CarriedOptions,)
    flags = all_flags(parts)
    given, redefined = cfg.get("cli_args", {}), {*cfg.get("redefined_flags", ()), *_of_own_networks(cfg, flags)}
    argv: list[str] = []
    defaults: dict[str, Any] = {}
    for name, flag in flags.items():
        if name not in cfg or name in redefined:
            continue
        if name in given:
            argv += _as_words(flag, cfg[name])
        elif cfg[name] != shown_default(flag):
            defaults[name] = cfg[name]
    if plays:
        defaults |= _limits_of_playing(cfg)
    _check_foreign(cfg)
    own = {name: value for name, value in cfg.items() if name not in flags or name in redefined}
    argv.append(f"--{CARRIED}={_merged(cfg, own, given)}")
    return Program(argv, parts, defaults)


def _of_own_networks(cfg: Mapping[str, Any], flags: Mapping[str, Flag]) -> Iterator[str]:
    """Yield options whose value only a network of one's own knows: they are read by that, and are no flags here."""
    has_own = registered_maker("core") is not None or registered_maker("actor_critic") is not None
    if has_own and "rnn_type" in cfg and cfg["rnn_type"] not in flags["rnn_type"].value_type.choices:
        yield "rnn_type"


def _limits_of_playing(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return what counts otherwise here: so many steps and one more, their first picture, and all episodes of them."""
    frames = cfg["max_num_frames"]
    if frames is None or frames == SHOWN_DEFAULTS["max_num_frames"]:
        return {}
    return {"max_num_frames": int(frames) + 2, "max_num_episodes": int(cfg["max_num_episodes"])}


def view_of(config: Config | AttrDict) -> AttrDict:
    """Return the options of a run as Sample Factory's code reads them.

    Args:
        config: Of a run that was started by such code, or of any other; or already as it reads them.
    """
    if isinstance(config, AttrDict):
        return config
    values: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in config.values().items()
    }
    carried = _options_of(values.pop(CARRIED, "{}"))
    return AttrDict({**foreign_defaults(), **values, **carried})


def _as_words(flag: Flag, value: Any) -> list[str]:
    if flag.value_type.is_list:
        return [f"--{flag.name}", *(show_value(item) for item in value)]
    return [f"--{flag.name}={show_value(value)}"]


def _check_foreign(cfg: Mapping[str, Any]) -> None:
    """Refuse what is asked for and not there.

    Raises:
        ConfigError: Saying what, and why.
    """
    problems = []
    for name, foreign in FOREIGN_FLAGS.items():
        if name not in cfg or foreign.is_of_doom or cfg[name] in (None, foreign_defaults()[name]):
            continue
        value = cfg[name]
        words = [show_value(item) for item in value] if isinstance(value, list | tuple) else [show_value(value)]
        if not foreign.allows(words):
            problems.append(f"--{name}={' '.join(words)}: {describe_foreign(name)}")
    if problems:
        raise ConfigError(problems)


def _merged(cfg: Mapping[str, Any], own: Mapping[str, Any], given: Iterable[str]) -> str:
    """Return all other options as JSON: of the run that is resumed, unless they are on the command line.

    Raises:
        ConfigError: One of them is not what a file of options can hold.
    """
    saved = _saved(cfg) if cfg.get("restart_behavior", "resume") == "resume" else {}
    merged = {name: value for name, value in own.items() if name not in _ABOUT_THE_COMMAND}
    merged |= {name: value for name, value in saved.items() if name not in given}
    defaults = foreign_defaults()
    merged = {name: value for name, value in merged.items() if name not in defaults or defaults[name] != value}
    if problems := [f"--{name}={value!r:.200} {_NOT_DATA}" for name, value in merged.items() if not _is_plain(value)]:
        raise ConfigError(problems)
    return json.dumps(merged, default=_as_plain)


_NOT_DATA = (
    "cannot be kept with a run: options are numbers, texts, True, False, None, and lists and dictionaries of them, "
    "whose keys are texts"
)


def _saved(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the run that is resumed has kept; nothing of one that cannot be read, which others tell of."""
    try:
        return carried_in(read_config_file(run_folder_of(cfg).config_to_resume()))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def carried_in(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are no flags here, of what a file of options has; one of an imported run has them apart.

    Raises:
        KeyError, TypeError, ValueError: It is none.
    """
    flags = document["flags"]
    text = flags[CARRIED]["value"] if CARRIED in flags else json.dumps(document.get(CARRIED_KEY, {}))
    return _options_of(text)


def _as_plain(value: Any) -> Any:
    """Return arrays and numbers of numpy as Python's own."""
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    raise TypeError(value)


def _is_plain(value: Any) -> bool:
    """Tell whether JSON gives a value back as it is, but for tuples and arrays, which become lists."""
    try:
        json.dumps(value, default=_as_plain)
    except (TypeError, ValueError, RecursionError):
        return False
    return _has_text_keys(value)


def _is_finite(value: Any) -> bool:
    """Tell whether JSON has words for all numbers in a value."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _has_text_keys(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(_has_text_keys, value))


def _options_of(text: str) -> dict[str, Any]:
    """Return the options that travel as a text."""
    options: dict[str, Any] = json.loads(text, object_hook=_as_attributes)
    return options


def _as_attributes(entries: dict[str, Any]) -> dict[str, Any]:
    """Return a nested dictionary as one whose entries are attributes, too, unless one is called like a method."""
    return entries if entries.keys() & set(dir(dict)) else AttrDict(entries)
