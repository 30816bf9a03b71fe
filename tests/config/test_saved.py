"""Tests of config.json: what is written comes back, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sample_profiler.config import Config, load_config, parse_config, save_config
from sample_profiler.errors import MOST_PROBLEMS, ConfigError


@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """Grid."""

    grid_size: int = 5
    """Cells along each side."""


@dataclass(frozen=True, kw_only=True)
class MazeOptions:
    """Maze."""

    maze: dict[str, Any] = field(default_factory=dict)
    """What it looks like."""

    rules: dict[str, Any] | None = None
    """How it is played."""

    notes: dict[str, Any] = field(default_factory=dict)
    """What is worth knowing of it."""


LINE = (
    "--env=grid --seed=3 --encoder_mlp_layers 64 64 --decoder_mlp_layers --gamma=1 --grid_size=7 "
    "--normalize_input_keys position"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.json"


@pytest.fixture
def cfg() -> Config:
    return parse_config(LINE.split(), extra_parts=[GridOptions], defaults={"obs_scale": 255})


def change(path: Path, flag: str, **entries: Any) -> None:
    document = json.loads(path.read_text())
    document["flags"].setdefault(flag, {}).update(entries)
    path.write_text(json.dumps(document))


def problems_of(path: Path, extra_parts: tuple[type, ...] = (GridOptions,)) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_config(path, extra_parts)
    assert all(str(path) in problem for problem in caught.value.problems)
    return caught.value.problems


def test_a_configuration_comes_back_as_it_was(cfg: Config, path: Path):
    save_config(cfg, path)
    loaded = load_config(path, [GridOptions])
    assert loaded == cfg
    assert loaded.model.encoder_mlp_layers == (64, 64) and type(loaded.gamma) is float


def test_the_file_has_every_value_and_its_origin(cfg: Config, path: Path):
    save_config(cfg, path)
    document = json.loads(path.read_text())
    assert document["format"] == 1
    assert set(document["flags"]) == set(cfg.values())
    assert document["flags"]["seed"] == {"value": 3, "origin": "command line"}
    assert document["flags"]["obs_scale"] == {"value": 255.0, "origin": "family"}
    assert document["flags"]["recurrence"] == {"value": 32, "origin": "automatic"}


def test_saving_replaces_the_file_and_leaves_nothing_else(cfg: Config, path: Path):
    path.write_text("old")
    save_config(cfg, path)
    assert [item.name for item in path.parent.iterdir()] == ["config.json"]
    assert load_config(path, [GridOptions]) == cfg


def test_a_failed_save_leaves_the_old_file(cfg: Config, path: Path, monkeypatch: pytest.MonkeyPatch):
    save_config(cfg, path)
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        save_config(cfg, path)
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["config.json"]


def test_flags_newer_than_the_file_have_their_defaults(cfg: Config, path: Path):
    save_config(cfg, path)
    document = json.loads(path.read_text())
    del document["flags"]["num_epochs"]
    path.write_text(json.dumps(document))
    loaded = load_config(path, [GridOptions])
    assert loaded.num_epochs == 1 and loaded.origin("num_epochs") == "default"


def test_values_of_the_wrong_type_are_refused_all_at_once(cfg: Config, path: Path):
    save_config(cfg, path)
    change(path, "rollout", value="32")
    change(path, "gamma", value=None)
    change(path, "async_rl", value=1)
    change(path, "encoder_mlp_layers", value=[64, 0])
    change(path, "device", value="__import__('os')")
    change(path, "experiment", value="../../etc")
    problems = problems_of(path)
    assert len(problems) == 6
    assert problems[0].startswith("--experiment='../../etc'")


def test_values_that_do_not_fit_each_other_are_refused(cfg: Config, path: Path):
    save_config(cfg, path)
    change(path, "batch_size", value=1000)
    (problem,) = problems_of(path)
    assert "--batch_size=1000" in problem and "multiple" in problem


def test_unknown_flags_and_damaged_entries_are_refused(cfg: Config, path: Path):
    save_config(cfg, path)
    change(path, "rolout", value=3, origin="default")
    change(path, "seed", origin="somewhere")
    change(path, "gamma", origin=["default"])
    problems = problems_of(path)
    assert len(problems) == 3
    assert any("did you mean --rollout?" in problem for problem in problems)


def test_flags_of_a_family_need_the_family(cfg: Config, path: Path):
    save_config(cfg, path)
    (problem,) = problems_of(path, ())
    assert "--grid_size is not a flag" in problem


def test_a_file_without_env_is_refused(cfg: Config, path: Path):
    save_config(cfg, path)
    document = json.loads(path.read_text())
    del document["flags"]["env"]
    path.write_text(json.dumps(document))
    assert "--env is required" in problems_of(path)[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        '{"format": 1, "flags": []}',
        '{"format": 2, "flags": {}}',
        '{"flags": {}}',
        '{"format": 1, "flags": {"env": {}, "env": {}}}',
        "[" * 100_000,
        '{"format": 1, "flags": {"env": {"value": ' + "9" * 10_000 + "}}}",
        "import os",
    ],
)
def test_files_that_are_no_configuration_are_refused(path: Path, text: str):
    path.write_text(text)
    problems = problems_of(path)
    assert len(problems) == 1 and "restart" in problems[0]


def test_bytes_that_are_no_text_are_refused(path: Path):
    path.write_bytes(b"\x80\x04\x95")
    assert "is not a configuration" in problems_of(path)[0]


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path):
    assert "No such file" in problems_of(tmp_path / "config.json")[0]
    assert "cannot be read" in problems_of(tmp_path)[0]


def test_numbers_that_are_not_finite_are_refused(cfg: Config, path: Path):
    save_config(cfg, path)
    change(path, "gamma", value=float("nan"))
    assert "not a finite number" in problems_of(path)[0]


def test_values_of_free_form_are_nested_in_the_file_and_come_back(path: Path):
    maze = {"size": [5, 7], "doors": {"north": True}}
    cfg = parse_config(["--env=maze", '--rules={"turns": 3}'], extra_parts=[MazeOptions], defaults={"maze": maze})
    assert (cfg.maze, cfg.rules, cfg.notes) == (maze, {"turns": 3}, {})
    save_config(cfg, path)
    assert json.loads(path.read_text())["flags"]["maze"] == {"value": maze, "origin": "family"}
    assert load_config(path, [MazeOptions]) == cfg
    change(path, "maze", value=[maze])
    assert (
        "--maze=" in problems_of(path, (MazeOptions,))[0] and "is no dictionary" in problems_of(path, (MazeOptions,))[0]
    )


def test_a_flood_of_unknown_flags_is_told_in_part(cfg: Config, path: Path):
    save_config(cfg, path)
    document = json.loads(path.read_text())
    document["flags"] |= {f"flag_{number}": {"value": 1, "origin": "default"} for number in range(20_000)}
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=r"^20000 problems with the options:") as error:
        load_config(path, [GridOptions])
    assert len(str(error.value).splitlines()) == MOST_PROBLEMS + 2
    assert str(error.value).endswith(f"and {20_000 - MOST_PROBLEMS} more")


def test_flags_of_a_family_that_is_not_known_here_are_options_all_the_same_if_that_is_wanted(cfg: Config, path: Path):
    save_config(cfg, path)
    document = json.loads(path.read_text())
    values = {"yes": True, "number": 3, "share": 0.5, "text": "a", "nothing": None, "items": [1, 2.5], "none": []}
    values["nested"] = {"a": [1, {"b": None}]}
    left_out = {"mixed": [1, "a"], "lists": [[1]], "class": 1, "_own": 1, "a b": 1, "parts": 1}
    document["flags"] |= {name: {"value": each, "origin": "family"} for name, each in (values | left_out).items()}
    document["flags"]["odd"] = 3
    path.write_text(json.dumps(document))
    assert len(problems_of(path)) >= len(values) + len(left_out)
    loaded = load_config(path, keeps_unknown=True)
    found = {name: loaded.values()[name] for name in values}
    assert found == values | {"items": (1.0, 2.5), "none": ()}
    assert not loaded.values().keys() & {*left_out, "odd"}
    assert loaded.share == 0.5
    assert load_config(path, [GridOptions], keeps_unknown=True).part(GridOptions) == cfg.part(GridOptions)
