"""What is uploaded and downloaded, without a hub."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from sample_profiler.compat.running import publishing
from sample_profiler.compat.running.publishing import (
    check_hub,
    download,
    generate_model_card,
    generate_replay_video,
    publish,
)
from sample_profiler.errors import ConfigError, UsageError


def test_a_card_tells_how_well_it_plays_and_how_to_go_on(tmp_path):
    generate_model_card(str(tmp_path), "APPO", "maze", "me/first", [1.0, 3.0], "my.enjoy", "my.train")
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("---\nlibrary_name:") and '"value": "2.00 +/- 1.00"' in text
    assert "python -m sample_profiler.compat -m my.enjoy --algo=APPO --env=maze" in text
    assert "--experiment=first" in text and "2.00 ± 1.00 in 2 episodes" in text
    generate_model_card(str(tmp_path), "APPO", "maze", "me/first")
    assert "-m MODULE" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("is_first", [True, False])
def test_pictures_become_a_video_wherever_their_channels_are(is_first, tmp_path):
    pytest.importorskip("imageio")
    shape = (3, 16, 24) if is_first else (16, 24, 3)
    cfg = SimpleNamespace(video_name="mine.mp4")
    generate_replay_video(str(tmp_path), [np.zeros(shape, np.uint8)] * 3, 30, cfg)
    (video,) = tmp_path.iterdir()
    assert video.stem == "mine" and video.stat().st_size > 0


def test_what_cannot_be_published_is_known_before_anything_is_played(monkeypatch):
    with pytest.raises(ConfigError, match="--push_to_hub wants it as user/name"):
        check_hub(SimpleNamespace(hf_repository=None))
    monkeypatch.setattr(publishing, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="huggingface_hub is not installed"):
        check_hub(SimpleNamespace(hf_repository="me/first"))


def test_without_a_hub_both_commands_say_so_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setattr(sys, "argv", ["load_from_hub", "-r", "me/first", "-d", str(tmp_path)])
    with pytest.raises(UsageError, match="huggingface_hub is not installed"):
        download()
    monkeypatch.setattr(sys, "argv", ["push_to_hub", "-r", "me/first", "-d", str(tmp_path / "none")])
    with pytest.raises(UsageError, match="there is no run in"):
        publish()


def test_a_run_is_downloaded_into_the_folder_of_runs(tmp_path, monkeypatch):
    asked = []
    hub = SimpleNamespace(snapshot_download=lambda repository, local_dir: asked.append((repository, str(local_dir))))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    publishing.load_from_hf(str(tmp_path), "me/first")
    assert asked == [("me/first", str(tmp_path / "first"))]

    def refuse(*_arguments, **_keywords):
        raise OSError("no route to the hub")

    hub.snapshot_download = refuse
    with pytest.raises(UsageError, match="me/first: OSError: no route to the hub"):
        publishing.load_from_hf(str(tmp_path), "me/first")
