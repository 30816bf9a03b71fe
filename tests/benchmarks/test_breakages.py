"""Each breakage of the list can be made, what counts as noticed, and which are made again."""

from __future__ import annotations

import json
from dataclasses import replace

import psutil
import pytest

from benchmarks import breakages
from benchmarks.breakages import BREAKAGES, check_tests, copied_repository, judge, main, run_tests
from benchmarks.breaking.breakage import Breakage
from harness.kept_lines import ROOT

FIRST, SECOND = BREAKAGES[:2]
MADE_UP = Breakage("a sum is a difference", "adding.py", "a + b", "a - b", ("test_adding.py",))


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/adding.py").write_text("def add(a, b):\n    return a + b\n")
    test = "from adding import add\n\ndef test_add():\n    assert add(2, 2) == 4\n"
    (tmp_path / "copy/test_adding.py").write_text(test)
    return tmp_path / "copy"


@pytest.fixture
def asked(monkeypatch):
    """Stand in for the tests; return what was run, and what comes of it by the name of a breakage."""
    runs, outcomes = [], {}

    def answer(copy, tests, **_):
        made = [each.name for each in BREAKAGES if each.find_problem(copy)]
        runs.append(made)
        return outcomes.get(*made) or (1, "FAILED tests/test_it.py::test_it - assert 1 == 2") if made else (0, "")

    monkeypatch.setattr(breakages, "run_tests", answer)
    return runs, outcomes


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda each: each.name)
def test_a_breakage_can_be_made_and_its_tests_are_there(breakage):
    assert not breakage.find_problem(ROOT)
    assert not breakage.find_missing_tests(ROOT)


def test_each_is_another_one():
    assert len(BREAKAGES) >= 40
    assert len({each.name for each in BREAKAGES}) == len(BREAKAGES)
    assert len({(each.path, each.old) for each in BREAKAGES}) == len(BREAKAGES)


def test_one_that_does_not_fit_any_more_is_told_of(repository):
    assert not MADE_UP.find_problem(repository)
    assert "stands 0 times" in replace(MADE_UP, old="c").find_problem(repository)
    assert "stands 2 times" in replace(MADE_UP, old="b").find_problem(repository)
    assert "stands 0 times" in replace(MADE_UP, path="moved.py").find_problem(repository)
    assert "no program" in replace(MADE_UP, new="(").find_problem(repository)
    assert "the old one" in replace(MADE_UP, new="a + b").find_problem(repository)
    tests = ("test_adding.py", "test_adding.py::test_add", "test_gone.py", "test_adding.py::test_gone")
    assert replace(MADE_UP, tests=tests).find_missing_tests(repository) == ["test_gone.py", "test_adding.py::test_gone"]


def test_it_is_made_for_as_long_as_its_tests_run(repository):
    with MADE_UP.made(repository):
        status, output = run_tests(repository, MADE_UP.tests)
        assert judge(status, output) == ("test_adding.py::test_add", "")
    assert run_tests(repository, MADE_UP.tests)[0] == 0


def test_whoever_cannot_import_it_has_noticed_nothing(repository):
    within = "def test_add():\n    from adding import add\n"
    for text in ("from adding import add\n", within):
        (repository / "test_adding.py").write_text(text)
        with replace(MADE_UP, old="def add(", new="def sum_of(").made(repository):
            assert not judge(*run_tests(repository, MADE_UP.tests))[0]


@pytest.mark.parametrize(
    "status, output, problem",
    [
        (None, "", "did not end"),
        (0, "1 passed", "all tests pass"),
        (5, "no tests ran", "status 5"),
        (1, "ERROR tests/test_it.py - ValueError", "no test failed"),
        (1, "tests/test_it.py:3: NameError\nFAILED tests/test_it.py::test_it - NameError: x", "nothing but NameError"),
    ],
)
def test_what_else_comes_of_it_is_a_problem(status, output, problem):
    caught_by, told = judge(status, output)
    assert not caught_by and problem in told


def test_what_tests_have_started_ends_with_them_also_if_they_take_too_long(repository):
    start = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    text = f"import subprocess, sys, time\n\ndef test_add():\n    {start}\n"
    for rest, limit_s, status in (("", 60.0, 0), ("    time.sleep(600)\n", 5.0, None)):
        (repository / "test_adding.py").write_text(text + rest)
        assert run_tests(repository, MADE_UP.tests, limit_s=limit_s)[0] == status
        assert not [each for each in psutil.process_iter(["environ"]) if str(repository) in str(each.info)]


def test_tests_that_fail_by_themselves_are_told_of(repository):
    (repository / "test_adding.py").write_text("def test_add():\n    assert False\n")
    with pytest.raises(breakages.BrokenTestsError, match="although nothing is broken"):
        check_tests(repository, MADE_UP.tests)


def test_the_copy_has_the_compiled_modules_and_is_removed():
    with copied_repository() as copy:
        assert (copy / FIRST.path).read_bytes() == (ROOT / FIRST.path).read_bytes()
        assert (copy / "pyproject.toml").exists() and not (copy / ".git").exists()
        compiled = {path.relative_to(ROOT) for path in (ROOT / "sample_profiler").rglob("*.so")}
        assert compiled == {path.relative_to(copy) for path in copy.rglob("*.so")}
    assert not copy.parent.exists()


def test_each_is_a_line_and_only_missing_ones_are_made(asked, tmp_path, capsys):
    runs, outcomes = asked
    path = tmp_path / "breakages.jsonl"
    flags = ("--only", FIRST.name, SECOND.name, f"--output={path}")
    outcomes[SECOND.name] = (0, "")
    assert main(flags) == 1
    assert runs == [[], [FIRST.name], [SECOND.name]]
    output = capsys.readouterr().out
    assert "1 of 2 breakages were noticed" in output and "all tests pass" in output
    runs.clear()
    assert main(flags) == 1 and not runs
    lines = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(lines[0]) | {"new": "another"}), lines[1]]) + "\n")
    outcomes.clear()
    assert main(flags) == 1
    assert runs == [[], [FIRST.name]]
    runs.clear()
    assert main([*flags, "--again"]) == 0
    assert runs == [[], [FIRST.name], [SECOND.name]]


def test_nothing_is_broken_while_tests_fail_by_themselves(asked, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(breakages, "run_tests", lambda *_, **__: (1, "FAILED tests/test_it.py::test_it"))
    assert main(["--only", FIRST.name, f"--output={tmp_path / 'breakages.jsonl'}"]) == 2
    assert "although nothing is broken" in capsys.readouterr().out
    assert not (tmp_path / "breakages.jsonl").exists()


def test_some_are_chosen_by_words_and_listed(asked, capsys):
    assert main(["--list", "--only", "advantages.py"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert 0 < len(listed) < len(BREAKAGES) and all("advantages.py" in line for line in listed)
    assert main(["--list", "--only", "no such words"]) == 2
    assert not asked[0]
