"""Prepares ViZDoom games: without window and sound, with the buttons of a scenario, away from the user's folder."""

from __future__ import annotations

import functools
import logging
import os
import tempfile
from pathlib import Path

import vizdoom

from sample_profiler.errors import EnvError
from sf_examples.vizdoom.doom_scenarios import DoomScenario

__all__ = ["GAME_ERRORS", "configure_game"]

logger = logging.getLogger(__name__)

GAME_ERRORS = (
    vizdoom.FileDoesNotExistException,
    vizdoom.MessageQueueException,
    vizdoom.SharedMemoryException,
    vizdoom.ViZDoomErrorException,
    vizdoom.ViZDoomIsNotRunningException,
    vizdoom.ViZDoomUnexpectedExitException,
)
"""What ViZDoom raises when a game does not start or is gone."""

# A game keeps what it writes to its console, a few lines for each episode, for ever; 128 lines are the least it takes.
_FEW_CONSOLE_LINES = "+con_buffersize 128"
_LAUNCHER = Path(__file__).with_name("launch_game.sh")
# The game makes this folder where it is started. Two games that find it missing both make it, and one of them dies.
_FOLDER_OF_GAME = "_vizdoom"


def configure_game(
    scenario: DoomScenario, file: Path, *, is_wide: bool, is_replaced: bool, is_visible: bool = False
) -> vizdoom.DoomGame:
    """Return a game that is ready to be started.

    Args:
        scenario: Buttons, time limit and rewards.
        file: The scenario's configuration file.
        is_wide: Render 256×144 instead of 160×120 pixels.
        is_replaced: The file is not the scenario's own: its rewards stay as they are.
        is_visible: Show the game in a window.

    Raises:
        EnvError: The file cannot be played with the scenario's buttons.
    """
    game = vizdoom.DoomGame()
    if not game.load_config(str(file)):
        logger.warning("%s: ViZDoom did not understand all of %s", scenario.name, file)
    if is_replaced:
        _check_buttons(game, scenario, file)
    game.set_available_buttons([getattr(vizdoom.Button, name) for name in scenario.buttons])
    # Variables are asked for by name where they are needed, not copied into every state.
    game.set_available_game_variables([])
    game.set_episode_timeout(scenario.episode_timeout_tics)
    if not is_replaced:
        if scenario.living_reward is not None:
            game.set_living_reward(scenario.living_reward)
        if scenario.death_penalty is not None:
            game.set_death_penalty(scenario.death_penalty)
    resolution = vizdoom.ScreenResolution.RES_256X144 if is_wide else vizdoom.ScreenResolution.RES_160X120
    game.set_screen_resolution(resolution)
    # Planar: the frame is [channels, height, width] already.
    game.set_screen_format(vizdoom.ScreenFormat.CRCGCB)
    game.set_mode(vizdoom.Mode.PLAYER)
    game.set_window_visible(is_visible)
    game.set_sound_enabled(False)
    game.set_render_all_frames(False)
    game.add_game_args(_FEW_CONSOLE_LINES)
    _keep_files_away(game)
    return game


def _check_buttons(game: vizdoom.DoomGame, scenario: DoomScenario, file: Path) -> None:
    """A scenario may use more than its own file offers; another file was made for the buttons that it lists."""
    offered = {button.name for button in game.get_available_buttons()}
    missing = [name for name in scenario.buttons if name not in offered]
    if missing:
        raise EnvError(
            f"{scenario.name}: the scenario file {file} has no button {', '.join(missing)}; its available_buttons are "
            f"{', '.join(sorted(offered)) or 'none'}. Add what is missing to the file, or choose an environment with "
            "other actions"
        )


def _keep_files_away(game: vizdoom.DoomGame) -> None:
    """Have the game read and write nothing in the current folder, which is the user's."""
    # Settings are read at the start and written at the end, by all games at once: nobody shall find half a file.
    game.set_doom_config_path(os.devnull)
    if os.access(_LAUNCHER, os.X_OK):
        os.environ["SAMPLE_PROFILER_GAME_PROGRAM"] = str(Path(vizdoom.__file__).with_name("vizdoom"))
        os.environ["SAMPLE_PROFILER_GAME_FOLDER"] = str(_make_game_folder())
        game.set_vizdoom_path(str(_LAUNCHER))
    else:
        _warn_about_launcher()
        Path(_FOLDER_OF_GAME).mkdir(exist_ok=True)


@functools.cache
def _make_game_folder() -> Path:
    """Return the folder that games are started in; nothing but empty folders is ever in it."""
    folder = Path(tempfile.gettempdir()) / f"sample_profiler_games_{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        # Games read settings from their folder: never from one that somebody else has put there.
        folder = Path(tempfile.mkdtemp(prefix="sample_profiler_games_"))
    (folder / _FOLDER_OF_GAME).mkdir(exist_ok=True)
    return folder


@functools.cache
def _warn_about_launcher() -> None:
    logger.warning("%s cannot be executed; games leave a folder %s in %s", _LAUNCHER, _FOLDER_OF_GAME, Path.cwd())
