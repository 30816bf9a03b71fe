"""What a player sees and can do, without a game that runs."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.errors import EnvError
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_player import DoomPlayer
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS


def make_player(name="doom_basic", **options):
    return DoomPlayer(DOOM_SCENARIOS[name], VizdoomOptions(**options), is_visible=False)


def test_a_choice_of_nothing_holds_no_button():
    player = make_player()
    assert isinstance(player.action_space, spaces.Discrete)
    assert not any(player.held(0))
    held = [player.held(choice) for choice in range(1, int(player.action_space.n))]
    assert all(any(buttons) for buttons in held)
    assert len({tuple(buttons) for buttons in held}) == len(held)


def test_parts_of_an_action_are_held_together():
    player = make_player("doom_deathmatch")
    assert isinstance(player.action_space, spaces.Tuple)
    nothing = (0,) * len(player.action_space.spaces)
    assert not any(player.held(nothing))
    alone = [player.held(tuple(int(part == i) for i in range(len(nothing)))) for part in range(len(nothing))]
    assert player.held((1,) * len(nothing)) == [sum(amounts) for amounts in zip(*alone, strict=True)]


@pytest.mark.parametrize("is_wide", [True, False])
def test_observations_are_of_the_size_that_is_asked_for(is_wide: bool):
    frame = np.random.default_rng(1).integers(0, 256, (3, 144, 256) if is_wide else (3, 120, 160), dtype=np.uint8)
    player = make_player(res_w=128, res_h=72, wide_aspect_ratio=is_wide)
    assert player.observation_space.contains(player.observe(frame))
    native = make_player(res_w=frame.shape[2], res_h=frame.shape[1], wide_aspect_ratio=is_wide)
    assert native.observe(frame) is frame


def test_a_scenario_file_that_is_not_there_is_an_error_at_once():
    with pytest.raises(EnvError, match=r"nowhere\.cfg"):
        make_player(doom_scenario="nowhere.cfg")
