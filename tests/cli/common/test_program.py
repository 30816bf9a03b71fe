"""`sample-profiler train` and `enjoy`: what their words are to the programs that train and play."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from sample_profiler.cli.common import program as program_module
from sample_profiler.cli.common.program import gymnasium_program
from sample_profiler.cli.main import main
from sample_profiler.cli.playing import playing as playing_module
from sample_profiler.cli.training import training as training_module
from sample_profiler.config.parts import EvaluationOptions
from sample_profiler.envs import registry
from sample_profiler.envs.gymnasium_ids import find_gym_env, gym_defaults, make_gym_env


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    monkeypatch.setattr(registry, "_fallbacks", [])
    monkeypatch.setattr(sys, "path", sys.path[:])


@pytest.fixture
def called(monkeypatch):
    """Stand in for training and playing; collect the programs."""
    called = []
    monkeypatch.setattr(training_module, "train_as_told", lambda program, *_: called.append(program) or 7)
    monkeypatch.setattr(playing_module, "play_as_told", lambda program, _: called.append(program) or 8)
    return called


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["CartPole-v1"], ["--env=CartPole-v1"]),
        (["CartPole-v1", "--seed", "-1", "--a=b"], ["--env=CartPole-v1", "--seed", "-1", "--a=b"]),
        (["ale_py:ALE/Pong-v5"], ["--env=ale_py:ALE/Pong-v5"]),
        (["--experiment=mine"], ["--experiment=mine"]),
        (["--env=CartPole-v1", "--seed=1"], ["--env=CartPole-v1", "--seed=1"]),
        ([""], ["--env="]),
        ([], []),
    ],
    ids=str,
)
def test_the_first_word_is_the_environment_unless_it_is_a_flag(called, words, argv):
    assert main(["train", *words]) == 7
    assert main(["enjoy", *words]) == 8
    assert [program.argv for program in called] == [argv, argv]
    assert [program.defaults for program in called] == [gym_defaults(argv)] * 2
    assert [tuple(program.extra_parts) for program in called] == [(), (EvaluationOptions,)]
    assert registry._find_maker("CartPole-v1") is make_gym_env


def test_what_a_script_has_registered_counts_before_the_ids(called):
    registry.register_env("CartPole-v1", mine := lambda *_, **__: None)
    assert main(["train", "CartPole-v1"]) == 7
    assert registry._find_maker("CartPole-v1") is mine


@pytest.mark.parametrize("command", ["train", "enjoy"])
@pytest.mark.parametrize("words", [["--help"], ["-h"], ["MountainCar-v0", "--help"]], ids=str)
def test_help_says_what_may_be_trained_on_and_lists_all_flags(called, capsys, monkeypatch, command, words):
    assert main([command, *words]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: sample-profiler {command} ENV [--flag=value …]\n")
    assert "any id that Gymnasium knows" in text
    assert "\n  --rollout (64)\n" in text, "a default of the ids"
    assert ("\n  --save_video (False)\n" in text) == (command == "enjoy")
    assert max(map(len, text.splitlines())) <= 103
    assert called == []
    examples = [line.split() for line in text.splitlines() if line.startswith("  sample-profiler ")]
    assert len(examples) == 2
    for _, *example in examples:
        main(example)
    assert len(called) == 2


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["CartPole-v99"], "no environment is registered as 'CartPole-v99': did you mean 'CartPole-v"),
        (["--rollout=32", "CartPole-v1"], "'CartPole-v1' belongs to no flag"),
        (["CartPole-v1", "--rolout=32"], "--rollout"),
        ([], "--env"),
    ],
)
def test_what_cannot_be_trained_on_is_told_as_by_the_example(caplog, tmp_path, monkeypatch, flags, told):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *flags]) == 2
    assert told in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_played_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["enjoy", "CartPole-v1"]) == 2
    assert "there is no run in " in capsys.readouterr().err


def test_a_run_begins_with_its_process_where_this_is_the_program(monkeypatch):
    begun = []
    monkeypatch.setattr(
        training_module, "train_as_told", lambda _program, _observers, ns, _components: begun.append(ns)
    )
    monkeypatch.setattr("sample_profiler.cli.train.process_start_ns", lambda: 1)
    monkeypatch.setattr("sample_profiler.cli.train.time", SimpleNamespace(perf_counter_ns=lambda: 2))
    monkeypatch.setattr(sys, "argv", ["sample-profiler", "train", "CartPole-v1"])
    main()
    main(["train", "CartPole-v1"])
    assert begun == [1, 2]


def test_modules_that_register_ids_may_be_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_own_envs.py").write_text(
        "import gymnasium\ngymnasium.register('Here-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    (tmp_path / "argparse.py").write_text("raise AssertionError('found before the one of Python')\n")
    monkeypatch.chdir(tmp_path)
    import gymnasium

    try:
        gymnasium_program(["my_own_envs:Here-v0"], "")
        gymnasium_program(["my_own_envs:Here-v0"], "")
        assert sys.path[-1] == str(tmp_path) and sys.path.count(str(tmp_path)) == 1
        assert find_gym_env("my_own_envs:Here-v0") is make_gym_env
    finally:
        gymnasium.registry.pop("Here-v0", None)
        sys.modules.pop("my_own_envs", None)


def test_where_python_is_told_not_to_look_into_the_current_folder_it_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = SimpleNamespace(safe_path=True)
    monkeypatch.setattr(program_module, "sys", SimpleNamespace(path=sys.path, flags=flags))
    gymnasium_program(["CartPole-v1"], "")
    assert os.getcwd() not in sys.path
