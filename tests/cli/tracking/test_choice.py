"""Which trackers a run is shown in, and that what is missing is told before anything else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_profiler.cli.tracking import choice
from sample_profiler.cli.tracking.choice import chosen_trackers, with_usable_trackers
from sample_profiler.config import parse_config
from sample_profiler.errors import ConfigError


def parse(*words):
    return parse_config(["--env=CartPole-v1", *words])


@pytest.fixture
def installed(monkeypatch):
    names = {"wandb", "trackio", "mlflow"}
    monkeypatch.setattr(choice, "describe_missing", lambda name: "" if name in names else f"{name} is missing")
    return names


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], []),
        (["--track=tensorboard"], []),
        (["--track="], []),
        (["--track=tensorboard,wandb,trackio,mlflow"], ["wandb", "trackio", "mlflow"]),
        (["--track", "mlflow", "mlflow"], ["mlflow"]),
        (["--with_wandb=True"], ["wandb"]),
        (["--with_wandb", "--track=wandb,mlflow"], ["wandb", "mlflow"]),
        (["--with_wandb=False", "--wandb_tags", "a", "b"], []),
    ],
)
def test_trackers_are_chosen_by_either_flag(words, names):
    assert chosen_trackers(parse(*words).values()) == names


def test_a_tracker_that_there_is_none_of_is_no_value():
    with pytest.raises(ConfigError, match=r"did you mean mlflow\?"):
        parse("--track=mlfow")


def test_all_that_is_missing_is_told_at_once(installed):
    installed.discard("wandb")
    installed.discard("mlflow")
    config = parse("--with_wandb=True", "--track=trackio,mlflow")
    config.origins["track"] = "saved"
    with pytest.raises(ConfigError) as raised:
        with_usable_trackers(config)
    assert raised.value.problems == (
        "--with_wandb=True: wandb is missing, or leave it out",
        "--track=mlflow (saved): mlflow is missing, or leave it out",
    )
    assert with_usable_trackers(parse("--track=trackio")).tracking.track == ("trackio",)


def test_a_saved_folder_that_is_not_here_is_not_made(installed, tmp_path, caplog):
    def usable(folder, origin):
        config = parse("--with_wandb=True", f"--wandb_dir={folder}")
        return with_usable_trackers(replace(config, origins={**config.origins, "wandb_dir": origin})).tracking.wandb_dir

    there, missing = str(tmp_path), str(tmp_path / "missing")
    assert usable(missing, "command line") == missing
    assert usable(there, "saved") == there
    assert caplog.text == ""
    assert usable(missing, "saved") == "./wandb"
    assert f"There is no folder --wandb_dir={missing}" in caplog.text
