"""Runs that are started from all sorts of programs: a script, an archive, a command line, standard input."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile

import pytest

from harness.runs import COLLECTED

PROGRAM = """
import gymnasium
from sample_profiler import register_env, train

register_env("mine", lambda *_, **__: gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1"), 50))
FLAGS = ["--env=mine", "--use_rnn=False", "--num_workers=1", "--num_envs_per_worker=4", "--rollout=16"]
FLAGS += ["--batch_size=64", "--encoder_mlp_layers", "8", "--train_for_env_steps=1000", "--experiment=run"]
"""
ENDING = "raise SystemExit(train(FLAGS))\n"
GUARDED = f'{PROGRAM}if __name__ == "__main__":\n    {ENDING}'


def start(folder, *arguments, program=""):
    """Run Python in a folder, with a program as its standard input."""
    command = [sys.executable, *arguments]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, cwd=folder, input=program, text=True, timeout=100, check=False, **output)


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_a_program_from_standard_input_is_refused_before_anything_is_made(tmp_path, arguments):
    result = start(tmp_path, *arguments, program=GUARDED)
    assert result.returncode == 2
    assert "this program was read from standard input" in result.stdout and "--serial_mode=True" in result.stdout
    assert "Traceback" not in result.stdout
    assert [*tmp_path.iterdir()] == []


def test_a_program_from_standard_input_trains_in_one_process(tmp_path):
    serial = GUARDED.replace('"--experiment=run"', '"--experiment=run", "--serial_mode=True", "--async_rl=False"')
    result = start(tmp_path, "-", program=serial)
    assert result.returncode == 0 and COLLECTED.search(result.stdout), result.stdout


@pytest.mark.parametrize("kind", ["command line", "archive"])
def test_programs_that_are_not_imported_again_hand_their_functions_over(tmp_path, kind):
    if kind == "archive":
        with zipfile.ZipFile(tmp_path / "program.zip", "w") as archive:
            archive.writestr("__main__.py", GUARDED)
        result = start(tmp_path, "program.zip")
    else:
        result = start(tmp_path, "-c", GUARDED)
    assert result.returncode == 0 and COLLECTED.search(result.stdout), result.stdout


def test_a_program_that_starts_a_run_wherever_it_is_imported_is_told_the_cure_once_and_starts_no_more(tmp_path):
    path = tmp_path / "unguarded.py"
    path.write_text(PROGRAM + ENDING)
    result = start(tmp_path, path)
    assert result.returncode == 2
    assert "Traceback" not in result.stdout
    (line,) = result.stdout.splitlines()
    assert re.search(r'ERROR: .*put what starts one below `if __name__ == "__main__":`', line)
    assert not (tmp_path / "train_dir").exists(), "what tried the environment found it out"
