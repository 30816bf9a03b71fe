"""The page about learning has the flags of the runs that it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.learning import RESULTS, SETTINGS, TASKS

PAGE = Path(__file__).parents[2] / "docs" / "learning.md"


def commands() -> list[set[str]]:
    """Return the words of each command that trains."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    return [set(words.split()) for words in re.findall(r"^python -m (sf_examples\.\w+\.train_.*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("name", TASKS)
def test_the_flags_of_a_task_are_on_the_page(name: str) -> None:
    task = TASKS[name]
    told = [words for words in commands() if {task.module, *task.flags} <= words]
    assert len(told) == 1
    assert told[0] - {task.module, *task.flags} in ({*setting} for setting in SETTINGS.values())


@pytest.mark.parametrize("name", TASKS)
def test_kept_runs_were_made_with_the_flags_of_their_task(name: str) -> None:
    runs = json.loads((RESULTS / f"learning-{name}.json").read_text(encoding="utf-8"))["runs"]
    task = TASKS[name]
    assert runs
    assert [run["flags"] for run in runs] == [
        [*task.flags, *SETTINGS[run["setting"]], f"--seed={run['seed']}"] for run in runs
    ]
