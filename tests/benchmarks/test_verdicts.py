"""What the verdicts are measured with: causes that are injected, advice that is followed, and shares that fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks import verdicts
from benchmarks.verdicts import CASES, find_faults, main, run, setting_of
from sample_profiler.analysis.verdict import Advice, Verdict
from tests.analysis.made_runs import batcher, inference, judge_run, learner, worker


@pytest.mark.parametrize("name", ["batch as large as the buffers", "half of the workers slow"])
def test_of_eight_workers_four_slow_ones_are_slow_and_five_are_the_rule(name):
    first_slow = CASES[name].injected["slow_workers_from"]
    workers = [worker(index, env_step=0.4, steps=100 if index >= first_slow else 1000) for index in range(8)]
    accumulate = {"num_workers": 8, "num_batches_to_accumulate": 1}
    verdict = judge_run(
        *workers, inference(busy=0.1), learner(0.2), batcher(finished=2000.0, at_learner=0.0), config=accumulate
    )
    assert (verdict.cause == "slow worker") == ("slow worker" in CASES[name].right)


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ("--num_workers=4", ("--num_workers=4",)),
        ("--rollout=64 --batch_size=512", ("--rollout=64", "--batch_size=512")),
        ("OMP_NUM_THREADS=2", None),
        ("torch.set_num_threads(2)", None),
        ("fewer --num_workers or --num_envs_per_worker", None),
        ("--num_workers=4 or a faster environment", None),
        ("look at what environment 5 does otherwise", None),
        ("", None),
    ],
)
def test_only_flags_are_settings(change, setting):
    assert setting_of(change) == setting


@pytest.fixture
def train(monkeypatch):
    """Have each run end with one advice, and keep what the runs were made with."""
    seen = []

    def install(change, cause="learner"):
        verdict = Verdict(cause, "", "", (), (Advice(change, "", (1.0, 3.0)),), 1.0, 9.0)
        facts = SimpleNamespace(fps=2.0, components=(), machine_busy=1.0)
        report = SimpleNamespace(verdict=verdict, facts=facts)
        monkeypatch.setattr(verdicts, "_train", lambda *arguments: seen.append(arguments) or report)
        return seen

    return install


def test_advice_is_followed_by_what_it_says_and_the_cause_stays(train):
    seen = train("--a=1")
    result = run("learner slow", 9.0, follows=True)
    assert result["followed"] == {"change": "--a=1", "fps": 2.0, "is_in_range": True}
    assert seen == [({"learner_ms": 300.0}, (), 9.0), ({"learner_ms": 300.0}, ("--a=1",), 9.0)]


def test_advice_in_words_is_not_followed_and_counted_apart(train, tmp_path, capsys):
    seen = train("a smaller network")
    result = run("learner slow", 9.0, follows=True)
    assert "followed" not in result and result["no_setting"] == "a smaller network"
    assert len(seen) == 1, "taking away what was injected is not what was advised"
    main(["--follow", "--output", str(tmp_path / "runs.jsonl"), "--cases", "learner slow"])
    output = capsys.readouterr().out
    assert "since their advice is no setting: 5" in output and "predictions that held" not in output


@pytest.mark.parametrize(("cause", "status"), [("learner", 0), ("inference", 1)])
def test_wrong_verdicts_fail(train, tmp_path, capsys, cause, status):
    train("--a=1", cause)
    assert main(["--output", str(tmp_path / "runs.jsonl"), "--cases", "learner slow"]) == status
    assert ("NOT as wanted: 0 of 5 verdicts are right" in capsys.readouterr().out) == bool(status)


def test_shares_are_wanted_of_verdicts_and_of_predictions():
    right, wrong = {"is_right": True}, {"is_right": False}
    held, missed = ({"is_right": True, "followed": {"is_in_range": is_in}} for is_in in (True, False))
    assert find_faults([right] * 19 + [wrong]) == []
    assert find_faults([right] * 18 + [wrong]) == ["18 of 19 verdicts are right, 95% are wanted"]
    assert find_faults([held] * 4 + [missed]) == []
    assert find_faults([held] * 3 + [missed]) == ["3 of 4 predictions held, 80% are wanted"]
    assert find_faults([]) == []
