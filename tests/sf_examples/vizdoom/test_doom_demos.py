"""Demos of Doom: whose episodes are recorded, where, and that ViZDoom replays them."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sample_profiler.config import parse_config
from sample_profiler.config.parts import EvaluationOptions
from sample_profiler.errors import EnvError
from sf_examples.vizdoom.doom_demos import DemoFolder, demo_folder_of
from sf_examples.vizdoom.doom_env import DoomEnv
from sf_examples.vizdoom.doom_match_env import DoomMatchEnv
from sf_examples.vizdoom.doom_matches import DOOM_MATCHES
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_player import DoomPlayer
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS


@pytest.fixture
def short_path():
    """A folder whose path leaves room for names of demos: the game takes 100 letters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("worker", "vector", "is_recorded"), [(0, 0, True), (0, 1, False), (1, 0, False), (None, None, False)]
)
def test_of_a_run_the_first_environment_is_recorded(worker, vector, is_recorded, short_path):
    cfg = parse_config([f"--record_to={short_path}", "--env=doom_basic"], extra_parts=(VizdoomOptions,))
    placement = None if worker is None else SimpleNamespace(worker_index=worker, vector_index=vector)
    assert (demo_folder_of(cfg, placement) is not None) == is_recorded
    assert list(short_path.iterdir()) == [], "nothing is made before the first episode"


def test_what_is_played_is_recorded_by_name_of_the_run_and_time(short_path):
    flags = [f"--record_to={short_path}", "--env=doom_basic", "--experiment=mine"]
    demos = demo_folder_of(parse_config(flags, extra_parts=(VizdoomOptions, EvaluationOptions)), None)
    first, second = demos.next_demo(), demos.next_demo()
    assert re.fullmatch(rf"{short_path}/mine/\d{{4}}(_\d\d){{2}}__\d\d_\d\d_\d\d/e000\.lmp", first)
    assert second.endswith("/e001.lmp")
    assert demo_folder_of(parse_config(flags[1:], extra_parts=(VizdoomOptions, EvaluationOptions)), None) is None


def test_a_path_that_the_game_cannot_take_is_an_error(short_path):
    with pytest.raises(EnvError, match="letters, and the game takes 100: use a folder with a shorter name"):
        DemoFolder(short_path / ("long" * 30)).next_demo()
    (short_path / "file").touch()
    with pytest.raises(EnvError, match=r"--record_to: .* cannot be made: Not a directory"):
        DemoFolder(short_path / "file" / "x").next_demo()


def replay(player: DoomPlayer, demo: str, arguments: str = "") -> int:
    """Return how many tics a demo has."""
    game = player.make_game()
    game.add_game_args(arguments)
    game.set_episode_timeout(0)
    game.init()
    try:
        game.replay_episode(demo)
        num_tics = 0
        while not game.is_episode_finished() and num_tics < 1000:
            game.advance_action(1)
            num_tics += 1
        return num_tics
    finally:
        game.close()


@pytest.mark.whole_run
def test_each_episode_of_a_game_is_one_demo_and_none_is_another_for_it(short_path):
    plain, recorded = (
        DoomEnv(DOOM_SCENARIOS["doom_basic"], VizdoomOptions(timelimit=40 / 2100), 4, demos=demos)
        for demos in (None, DemoFolder(short_path))
    )
    try:
        for seed in (3, None):
            seen = [env.reset(seed=seed)[0] for env in (plain, recorded)]
            np.testing.assert_array_equal(*seen)
            for _ in range(10):
                results = [env.step(2) for env in (plain, recorded)]
                np.testing.assert_array_equal(results[0][0], results[1][0])
            assert results[1][3]
        recorded.close()
        assert sorted(path.name for path in short_path.iterdir()) == ["e000.lmp", "e001.lmp"]
        for path in short_path.iterdir():
            assert 38 <= replay(recorded._player, str(path)) <= 42
    finally:
        plain.close()
        recorded.close()


@pytest.mark.whole_run
def test_each_episode_of_a_match_is_one_demo(short_path):
    env = DoomMatchEnv(DOOM_MATCHES["doom_duel"], VizdoomOptions(timelimit=0.05), 4, demos=DemoFolder(short_path))
    try:
        for seed in (3, None):
            env.reset(seed=seed)
            is_over = False
            while not is_over:
                _, _, _, truncated, _ = env.step([env.action_space.sample() for _ in range(2)])
                is_over = any(truncated)
    finally:
        env.close()
    demos = sorted(short_path.iterdir())
    assert [path.name for path in demos] == ["e000.lmp", "e001.lmp"]
    for path in demos:
        assert 100 <= replay(env._player, str(path), "-host 1 -deathmatch") <= 110
