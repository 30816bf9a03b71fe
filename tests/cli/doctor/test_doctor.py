"""`sample-profiler doctor`: its command line, what it prints, and programs that examine instead of training."""

from __future__ import annotations

import json
import sys

import pytest

from sample_profiler.cli.main import main
from sample_profiler.cli.train import train
from sample_profiler.doctor import process
from sample_profiler.doctor.findings import Finding
from sample_profiler.doctor.long_play import Limits
from sample_profiler.doctor.measurements import CallTimes, Growth, Measurements
from sample_profiler.doctor.process import Diagnosis
from sample_profiler.envs import export_registration, registry
from sample_profiler.switches import DOCTOR_VARIABLE


def finding(grade="warning", count=1):
    return Finding(grade, "prints", "step() prints", "for example 'hello'", "take the print out", count)


@pytest.fixture
def examined(monkeypatch):
    """Have nothing examined; returns what is said of it, and how it was asked for."""
    asked = []
    findings = [finding()]
    times = CallTimes()
    for _ in range(20):
        times.add(1000, 900, 0)
    measured = Measurements(steps=times.summary(0), memory_bytes=Growth(1.0, 20, 1.0), rewards=(0.0, 1.0, 0.5))

    def diagnose(config, limits, on_progress):
        export_registration(config.run.env)
        asked.append((config, limits))
        return Diagnosis(config.run.env, findings, measured, {"timer": 1.0}, 3.0)

    monkeypatch.setattr(process, "diagnose", diagnose)
    return asked, findings


def test_an_environment_is_examined_with_flags_of_its_own(examined, capsys):
    asked, _ = examined
    assert main(["doctor", "--seconds", "3", "--env=CartPole-v1", "--env_frameskip=2"]) == 0
    ((config, limits),) = asked
    assert (config.run.env, config.environment.env_frameskip, config.faults.hang_timeout) == ("CartPole-v1", 2, 20.0)
    assert limits == Limits(seconds=3.0)
    said = capsys.readouterr().out
    assert "WARNING prints: step() prints\n  for example 'hello'\n  → take the print out" in said
    assert said.endswith("1 warning\n")


def test_the_id_may_come_first_as_for_train(examined):
    assert main(["doctor", "Pendulum-v1", "--hang_timeout=5"]) == 0
    assert examined[0][0][0].run.env == "Pendulum-v1"
    assert examined[0][0][0].faults.hang_timeout == 5.0


def test_an_error_is_a_status_and_all_of_it_can_be_read_as_data(examined, capsys):
    examined[1].append(finding("error", count=7))
    assert main(["doctor", "--json", "--env=CartPole-v1"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [each["count"] for each in document["findings"]] == [1, 7]
    assert document["measured"]["steps"]["num_calls"] == 20


def test_what_cannot_be_looked_at_is_told_with_the_cure(capsys):
    assert main(["doctor", "--env=doom_of_nobody"]) == 2
    assert "sample-profiler doctor -- python -m my_training" in capsys.readouterr().err
    assert main(["doctor", "--env=CartPole-v1", "--no_such_flag=1"]) == 2
    assert "no_such_flag" in capsys.readouterr().err
    assert main(["doctor"]) == 2
    assert "give an environment" in capsys.readouterr().err
    assert main(["doctor", "--env=CartPole-v1", "--", "python"]) == 2
    assert "behind the program" in capsys.readouterr().err
    assert main(["doctor", "--", "no_such_program_anywhere"]) == 2


def test_the_help_names_what_is_looked_at(capsys):
    with pytest.raises(SystemExit):
        main(["doctor", "--help"])
    assert "--seconds" in capsys.readouterr().out


def test_a_program_that_trains_examines_its_environment_if_it_is_told_to(examined, monkeypatch, capsys):
    monkeypatch.setattr(registry, "_makers", {"mine": lambda *_, **__: None})
    for name, status in (("mine", 0), ("yours", 2)):
        monkeypatch.setenv(DOCTOR_VARIABLE, json.dumps({"seconds": 2.0, "as_json": False}))
        assert train([f"--env={name}"], defaults={"env_frameskip": 3}) == status
    ((config, limits),) = examined[0]
    assert (config.environment.env_frameskip, limits) == (3, Limits(seconds=2.0))
    assert "sample-profiler doctor --" in capsys.readouterr().err


@pytest.fixture
def program(tmp_path):
    """Make a program of some lines that follow the reading of the variable; returns its command."""

    def make(*lines):
        path = tmp_path / "program.py"
        path.write_text("\n".join(["import json, os, pathlib", f"told = os.environ[{DOCTOR_VARIABLE!r}]", *lines]))
        return [sys.executable, str(path)]

    return make


def test_programs_are_told_by_a_variable(program, capfd):
    assert main(["doctor", "--json", "--seconds=4", "--", *program("print(told)", "raise SystemExit(1)")]) == 1
    told = json.loads(capfd.readouterr().out)
    assert told.pop("begun_file")
    assert told == {"seconds": 4.0, "as_json": True}


def test_a_program_that_never_trains_is_no_healthy_environment(program, capfd):
    assert main(["doctor", "--", *program()]) == 2
    assert "ended without training, so nothing was examined" in capfd.readouterr().err
    assert main(["doctor", "--", *program("pathlib.Path(json.loads(told)['begun_file']).touch()")]) == 0
