"""Owns how a run comes to its folder: it is made, or taken from an earlier run, and locked."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from pathlib import Path

from sample_profiler.cli.training.folder_checks import check_access, describe_refused, find_link_to
from sample_profiler.config import Config, save_config
from sample_profiler.errors import ConfigError
from sample_profiler.files import expand_home, make_folder, remove_partials, sync, written_whole
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.surroundings.folder_lock import folder_locked, stay_until_unlocked

__all__ = ["end_trial", "remove_unfinished", "replace_config", "take_folder"]

logger = logging.getLogger(__name__)

_LEARNER_S = 150.0  # it may have two minutes for its step after its Runner is gone, and has to save


def take_folder(config: Config, stack: contextlib.ExitStack, *, is_new: bool) -> None:
    """Make and lock the run's folder; of an existing one, lock it and do with its run what `--restart_behavior` says.

    Args:
        config: of the run.
        stack: keeps the lock.
        is_new: whether there was no folder when the environment was tried: what is there now is another start's.

    Raises:
        ConfigError: another run is in it, or it cannot be made, or not be used by this user.
    """
    folder = config.run.folder
    check_access(config)
    try:
        if not is_new:
            stack.enter_context(folder_locked(folder))
            for checkpoints in filter(Path.is_dir, RunFolder(folder).all_checkpoints()):
                stay_until_unlocked(checkpoints, _LEARNER_S)
            if config.run.restart_behavior != "resume":
                _check_holds_no_other_run(config)
            if config.run.restart_behavior == "overwrite":
                _check_is_of_a_run(folder, expand_home(config.run.train_dir, "--train_dir", ConfigError))
                _empty(folder)
            elif config.run.restart_behavior == "restart":
                _rename(folder)
        if is_new or config.run.restart_behavior == "restart":
            make_folder(folder.parent)
            folder.mkdir()
            sync(folder.parent)
            stack.enter_context(folder_locked(folder))
    except FileExistsError as error:
        if os.path.lexists(folder):
            problem = f"{folder} was made by another run, or as a link, since this one looked: start again"
            raise ConfigError([f"{problem}, or use another --experiment"]) from error
        problem = f"cannot make the run's folder {folder}: a link on the way to it leads nowhere"
        raise ConfigError([f"{problem}: use another --train_dir"]) from error
    except OSError as error:
        problem = f"cannot make the run's folder {folder}: {describe_refused(error)[0]}"
        raise ConfigError([problem]) from error


def _check_holds_no_other_run(config: Config) -> None:
    """Refuse to delete or rename a folder that other runs are in, which may go on: names may have a slash.

    Raises:
        ConfigError: there is one.
    """
    folder = config.run.folder
    for path in folder.glob(f"*/**/{RunFolder(folder).config.name}"):
        if RunFolder(path.parent).log.exists():
            behavior = f"--restart_behavior={config.run.restart_behavior}"
            problem = (
                f"{behavior}: another run is in {path.parent}: nothing is changed; use another --experiment, or move"
            )
            raise ConfigError([f"{problem} that one"])


def _rename(folder: Path) -> None:
    kept = folder.with_name(f"{folder.name}_old_{time.strftime('%Y%m%d_%H%M%S')}")
    while kept.exists():  # two restarts within a second
        kept = kept.with_name(f"{kept.name}_2")
    folder.rename(kept)
    logger.info("The earlier run is kept in %s", kept)


def _check_is_of_a_run(folder: Path, train_dir: Path) -> None:
    """Refuse to delete what no run has made.

    Raises:
        ConfigError: a link leads to it, or it is a folder with something else than a log in it, without config.json.
    """
    if link := find_link_to(folder, train_dir):
        raise ConfigError(
            [
                f"--restart_behavior=overwrite: {link} is a link: nothing is deleted; use another --experiment or "
                "--train_dir, or delete it yourself"
            ]
        )
    # Every run writes its config.json before anything else but its log.
    own = RunFolder(folder)
    if not own.config.exists() and any(not path.name.startswith(own.log.name) for path in folder.iterdir()):
        raise ConfigError(
            [
                f"--restart_behavior=overwrite: {folder} is not the folder of a run, it has no config.json: nothing is "
                "deleted; use another --experiment or --train_dir, or delete it yourself"
            ]
        )


def _empty(folder: Path) -> None:
    """Remove all that is in a run's folder, its config.json last: if this is cut off, it is still a run's folder."""
    config = RunFolder(folder).config
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != config:
            path.unlink()
    config.unlink(missing_ok=True)


def replace_config(config: Config, folder: Path) -> None:
    """Write config.json; what was there before, if anything was, is set aside until this run has trained."""
    path, earlier = RunFolder(folder).config, RunFolder(folder).earlier_config
    try:
        if path.exists() and not earlier.exists():  # else a run was killed before it had trained: config.json is its
            with written_whole(earlier) as partial:
                partial.write_bytes(path.read_bytes())
        save_config(config, path)
    except OSError as error:
        problem = f"cannot write {path}: {error.strerror or error}: free space, or use another --train_dir"
        raise ConfigError([problem]) from error


def end_trial(folder: Path, *, has_trained: bool) -> None:
    """Keep flags that nothing was trained with out of what is told of the earlier run, if there was one.

    Those that a run could not even begin with, such as those of another network, are no part of it either.
    """
    earlier = RunFolder(folder).earlier_config
    with contextlib.suppress(OSError):  # there is none after the first batch
        if has_trained:
            earlier.unlink()
        else:
            earlier.replace(RunFolder(folder).config)


def remove_unfinished(folder: Path) -> None:
    """Remove the files that a run that was killed had begun to write."""
    for path in (folder, RunFolder(folder).profile, RunFolder(folder).summary):
        for removed in remove_partials(path):
            logger.debug("Removed the unfinished %s of a run that was killed", removed)
