"""Made-up input is counted, and what came of it is kept: the next call tries what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.faults.fuzzing import NUM_EXAMPLES, TRIED, describe_fuzzing, fuzzed

ROOT = Path(__file__).parents[2]
KIND = "tests/faults/test_sessions_and_records.py"


def test_inputs_are_counted_by_the_name_of_their_test():
    @given(number=st.integers())
    @fuzzed
    def test_numbers(number):
        seen.append(number)

    seen: list[int] = []
    test_numbers()
    assert TRIED.pop("test_numbers") == len(seen) == NUM_EXAMPLES


def test_what_passed_with_enough_inputs_is_done():
    lines = [
        {"test": "a", "asked": NUM_EXAMPLES, "tried": 4, "outcome": "failed"},
        {"test": "a", "asked": NUM_EXAMPLES, "tried": NUM_EXAMPLES, "outcome": "passed"},
        {"test": "b", "asked": NUM_EXAMPLES - 1, "tried": 7, "outcome": "passed"},
        {"test": "c", "asked": NUM_EXAMPLES, "tried": 7, "outcome": "failed"},
    ]
    assert describe_fuzzing(["a", "b", "c", "d"], lines) == [
        f"a: {NUM_EXAMPLES} inputs, passed",
        "b: 7 inputs, passed",
        "c: 7 inputs, failed",
        "d: not yet",
        f"1 of 4 kinds of input passed, with {NUM_EXAMPLES} inputs",
    ]


def test_each_kind_is_a_line_and_only_missing_ones_run_again(tmp_path):
    results = tmp_path / "fuzz.jsonl"
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", KIND, "-p", "no:cacheprovider"],
            cwd=ROOT,
            env={**os.environ, "FUZZ_RESULTS": str(results), "FAULTS_EXAMPLES": "3"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        outputs.append(done.stdout)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(lines) == len({line["test"] for line in lines}) >= 5
    assert {(line["asked"], line["tried"], line["outcome"], line["problem"]) for line in lines} == {
        (3, 3, "passed", "")
    }
    assert all(line["machine"] and line["commit"] for line in lines)
    assert all(f"{len(lines)} of {len(lines)} kinds of input passed, with" in output for output in outputs)
    assert f"{len(lines)} passed" in outputs[0] and "passed in" not in outputs[1]
