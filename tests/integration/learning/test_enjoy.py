"""A trained policy plays."""

from __future__ import annotations

import re
from pathlib import Path

import imageio.v2 as imageio
import pytest

from harness.runs import CARTPOLE, DOOM, SMALL, run

SERIAL = ("--serial_mode=True", "--async_rl=False", "--seed=1")


@pytest.fixture(scope="module")
def doom_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doom")
    result = run(*DOOM, *SERIAL, "--train_for_env_steps=500", folder=folder)
    assert result.returncode == 0, result.stdout
    return folder


def test_episodes_and_their_mean_are_printed_and_drawn_actions_repeat_with_the_seed(tmp_path: Path) -> None:
    trained = run(*CARTPOLE, *SMALL, *SERIAL, "--train_for_env_steps=2000", folder=tmp_path)
    assert trained.returncode == 0, trained.stdout
    playing = ("sf_examples.gym.enjoy_gym", "--env=CartPole-v1", "--max_num_episodes=5", "--no_render")
    outputs = []
    for flags in ((), (), ("--eval_deterministic",)):
        played = run(*playing, *flags, folder=tmp_path)
        assert played.returncode == 0, played.stdout
        outputs.append(played.stdout)
    rewards = [float(reward) for reward in re.findall(r"Episode \d: reward ([\d.]+), ", outputs[0])]
    assert len(rewards) == 5
    (mean,) = re.findall(r"Mean reward ([\d.]+) ± [\d.]+ over 5 episodes", outputs[0])
    assert float(mean) == pytest.approx(sum(rewards) / 5, abs=1e-3)
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the reader of imageio leaves its pipes
def test_a_video_has_a_picture_of_every_frame_played(doom_run: Path) -> None:
    flags = ("--env=doom_basic", "--max_num_episodes=2", "--save_video", "--res_w=48", "--res_h=36")
    played = run("sf_examples.vizdoom.enjoy_vizdoom", *flags, folder=doom_run)
    assert played.returncode == 0, played.stdout
    frames = sum(int(num.replace(",", "")) for num in re.findall(r"Episode \d: .*, ([\d,]+) frames", played.stdout))
    video = doom_run / "run" / "replay.mp4"
    with imageio.get_reader(video) as reader:
        pictures = list(reader.iter_data())
    assert len(pictures) == frames + 2, "and one of each reset"
    assert pictures[0].shape == (120, 160, 3)
    assert pictures[0].std() > 10, "it shows something"


def test_a_video_ends_after_the_frames_asked_for(doom_run: Path) -> None:
    flags = ("--env=doom_basic", "--save_video", "--video_frames=20", "--max_num_episodes=3")
    played = run("sf_examples.vizdoom.enjoy_vizdoom", *flags, folder=doom_run)
    assert played.returncode == 0, played.stdout
    assert "Video of 20 frames" in played.stdout
    assert "over 3 episodes" in played.stdout


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--experiment=other",), "there is no run in"),
        (("--policy_index=1",), "the run has 1 policy"),
        (("--eval_env_frameskip=3",), "does not divide"),
        (("--load_checkpoint_kind=best",), "there is no best checkpoint"),
        (("--rnn_size=17",), "is not of this network"),
        (("--restart_behavior=overwrite",), "is for training"),
    ],
)
def test_what_cannot_be_played_is_one_clear_error(doom_run: Path, flags: tuple[str, ...], problem: str) -> None:
    experiment = "run" if "--experiment=other" not in flags else "other"
    played = run(
        "sf_examples.vizdoom.enjoy_vizdoom", "--env=doom_basic", "--no_render", *flags, folder=doom_run,
        experiment=experiment,
    )  # fmt: skip
    assert played.returncode == 2, played.stdout
    assert problem in played.stdout
    assert "Traceback" not in played.stdout
