from types import SimpleNamespace

import numpy as np
import pytest

from sample_profiler.compat.running import playing, publishing
from sample_profiler.compat.running.playing import enjoy, render_frame
from sample_profiler.compat.settings.arguments import parse_full_cfg, parse_sf_args
from sample_profiler.errors import ConfigError


def cfg_of(folder, *words):
    argv = ["--env=maze", f"--train_dir={folder}", "--experiment=first", *words]
    return parse_full_cfg(parse_sf_args(argv, evaluation=True)[0], argv)


@pytest.fixture
def uploaded(tmp_path, monkeypatch):
    (tmp_path / "first").mkdir()
    pushed = []

    def play(program, episodes):
        assert not any("push_to_hub" in word for word in program.argv)
        episodes += [SimpleNamespace(reward=1.0), SimpleNamespace(reward=2.0)]
        return 0

    monkeypatch.setattr(playing, "play_as_told", play)
    monkeypatch.setattr(publishing, "find_spec", lambda name: object())
    monkeypatch.setattr(publishing, "push_folder", lambda folder, repository: pushed.append((folder, repository)))
    return pushed


def test_a_run_is_published_after_it_was_played(tmp_path, uploaded):
    assert enjoy(cfg_of(tmp_path, "--push_to_hub", "--hf_repository=me/first")) == (0, 1.5)
    assert uploaded == [(tmp_path / "first", "me/first")]
    assert "1.50" in (tmp_path / "first" / "README.md").read_text()
    assert enjoy(cfg_of(tmp_path)) == (0, 1.5)
    assert len(uploaded) == 1


def test_where_to_is_asked_before_anything_is_played(tmp_path, uploaded):
    with pytest.raises(ConfigError, match="--hf_repository=None"):
        enjoy(cfg_of(tmp_path, "--push_to_hub=True"))
    assert not uploaded


def test_pictures_are_kept_as_many_as_are_asked_for():
    env = SimpleNamespace(render=lambda: np.zeros((2, 2, 3), np.uint8))
    cfg = SimpleNamespace(save_video=True, video_frames=2, no_render=True, fps=0)
    kept = []
    for _ in range(3):
        assert render_frame(cfg, env, kept, 0, 0.0) > 0
    assert len(kept) == 2
    cfg.video_frames = -1  # of one episode
    render_frame(cfg, env, kept, 0, 0.0)
    render_frame(cfg, env, kept, 1, 0.0)
    assert len(kept) == 3


def test_a_window_has_a_speed(monkeypatch):
    waited, shown = [], []
    monkeypatch.setattr("time.time", lambda: 10.0)
    monkeypatch.setattr("time.sleep", waited.append)
    env = SimpleNamespace(render=lambda: shown.append(1))
    render_frame(SimpleNamespace(save_video=False, no_render=False, fps=4), env, [], 0, 9.9)
    render_frame(SimpleNamespace(save_video=False, no_render=True, fps=4), env, [], 0, 9.9)
    assert waited == [pytest.approx(0.15)] and shown == [1]
