"""What the verdicts are measured with: causes that are injected, advice that is followed, and shares that fail."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from benchmarks.checks import verdicts
from benchmarks.checks.verdicts import CASES, find_faults, following, main, run, setting_of
from sample_profiler.analysis.verdict import Advice, Verdict
from sample_profiler.config import SamplingOptions
from sample_profiler.storage.sampling_plan import make_sampling_plan
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


def quick_memory(name, **options):
    """Return how many trajectories the quick workers of a case have room for, and how many a dataset has."""
    flags = dict(flag.removeprefix("--").split("=") for flag in (*verdicts._FLAGS, *CASES[name].flags))
    plan = make_sampling_plan(SamplingOptions(**({key: int(value) for key, value in flags.items()} | options)), 1)
    quick = plan.worker_slots[: int(CASES[name].injected["slow_workers_from"])]
    return sum(len(slots) for worker in quick for slots in worker), plan.dataset_slots


@pytest.mark.parametrize("name", ["batch too large for the buffers", "batch as large as the buffers"])
def test_it_is_the_batch_that_is_too_large_for_the_memory_of_quick_workers(name):
    room, needed = quick_memory(name)
    assert room < needed
    room, needed = quick_memory(name, batch_size=512)
    assert room >= needed
    room, needed = quick_memory(name, num_batches_to_accumulate=3)
    assert room >= needed


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


def make_verdict(cause="learner", component="Learner_0", advice=()):
    return Verdict(cause, component, "", (), advice, 2.0, 9.0)


@pytest.fixture
def train(monkeypatch):
    """Have each run end with one advice and 2 frames per second, and keep what the runs were made with."""
    seen = []

    def install(change, cause="learner", fps=(1.0, 3.0)):
        verdict = make_verdict(cause, advice=(Advice(change, "", fps),))
        report = SimpleNamespace(verdict=verdict, facts=SimpleNamespace(fps=2.0, components=(), machine_busy=1.0))
        monkeypatch.setattr(verdicts, "_train", lambda *arguments: seen.append(arguments) or report)
        return seen

    return install


def test_advice_is_followed_by_what_it_says_and_the_cause_stays(train):
    seen = train("--a=1")
    assert run("learner slow", 9.0, follows=True)["followed"] == {
        "change": "--a=1",
        "range": [1.0, 3.0],
        "before": 2.0,
        "fps": 2.0,
        "predicts_change": False,
        "is_in_range": True,
    }
    assert seen == [({"learner_ms": 300.0}, (), 9.0), ({"learner_ms": 300.0}, ("--a=1",), 9.0)]


def test_a_right_cause_without_its_culprit_is_wrong(train, monkeypatch):
    train("--a=1", cause="balanced")
    assert not run("slow observer", 9.0, follows=False)["is_right"]
    monkeypatch.setattr(verdicts, "format_verdict", lambda _: "observer SlowObserver takes all of it")
    assert run("slow observer", 9.0, follows=False)["is_right"]


def test_a_range_without_the_throughput_as_it_was_predicts_a_change(train):
    train("--a=1", fps=(2.5, 3.0))
    followed = run("learner slow", 9.0, follows=True)["followed"]
    assert followed["predicts_change"] and not followed["is_in_range"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.as_advised])
def test_right_advice_in_words_makes_what_was_slow_quicker_and_leaves_the_rest(name):
    case = CASES[name]
    injected, flags = following(case, make_verdict(case.right[0]), "look at that")
    assert flags == () and injected.keys() == case.injected.keys()
    assert [key for key in injected if injected[key] < case.injected[key]] == list(case.as_advised)


def test_a_learner_gets_as_many_threads_as_advised():
    case = CASES["too many threads"]
    advised = "torch.set_num_threads(7)"
    assert following(case, make_verdict("too many threads"), advised) == ({"learner_threads": 7}, ())
    assert following(case, make_verdict("too many threads", "RolloutWorker_w0"), advised) is None


def test_every_case_whose_cure_is_no_flag_can_be_followed():
    with_flags = {"buffers", "taking turns", "small inference batches", "balanced"}
    with_flags |= {"too many inference workers", "saving"}
    for name, case in CASES.items():
        assert case.as_advised or case.right[0] in with_flags or "learner_threads" in case.injected, name


def test_words_of_a_wrong_verdict_are_not_followed_and_counted_apart(train, tmp_path, capsys):
    seen = train("a smaller network", cause="inference")
    result = run("learner slow", 9.0, follows=True)
    assert "followed" not in result and result["no_setting"] == "a smaller network"
    assert len(seen) == 1, "taking away what was injected is not what was advised"
    main(["--output", str(tmp_path / "runs.jsonl"), "--cases", "learner slow"])
    output = capsys.readouterr().out
    assert "cannot be followed here: 5" in output and "predictions that held: 0 of 0" in output


@pytest.mark.parametrize(("cause", "status"), [("environments", 0), ("inference", 1)])
def test_wrong_verdicts_fail(train, tmp_path, capsys, cause, status):
    train("--a=1", cause, fps=(2.0, 3.0))
    arguments = ["--output", str(tmp_path / "runs.jsonl"), "--cases", "environments slow"]
    assert main(arguments) == 1, "no prediction was of a change"
    assert "no prediction of a change was tried" in capsys.readouterr().out
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    first = json.loads(lines[1])
    first["followed"]["predicts_change"] = True
    (tmp_path / "runs.jsonl").write_text("\n".join([lines[0], json.dumps(first), *lines[2:]]) + "\n")
    assert main(arguments) == status
    assert ("NOT as wanted: 0 of 5 verdicts are right" in capsys.readouterr().out) == bool(status)


def test_without_following_nothing_is_as_wanted(train, tmp_path, capsys):
    seen = train("--a=1")
    arguments = ["--output", str(tmp_path / "runs.jsonl"), "--cases", "learner slow"]
    assert main([*arguments, "--no-follow"]) == 1
    assert "NOT as wanted: no prediction was tried" in capsys.readouterr().out
    assert len(seen) == 5
    with pytest.raises(SystemExit, match="has runs of another follow: give another --output"):
        main(arguments)


def test_an_interrupted_call_goes_on_and_nothing_is_judged_by_the_rules_of_two_commits(
    train, tmp_path, capsys, monkeypatch
):
    seen = train("--a=1")
    output = tmp_path / "runs.jsonl"
    arguments = ["--output", str(output), "--cases", "learner slow"]
    main(arguments)
    setting, *lines = output.read_text().splitlines()
    output.write_text("\n".join([setting, *lines[:3]]) + "\n" + lines[3][:20])
    seen.clear()
    main(arguments)
    assert len(seen) == 2 * 2, "the run whose line was cut off is made again, and the last one"
    monkeypatch.setattr("benchmarks.measuring.kept_runs.describe_commit", lambda: "another")
    with pytest.raises(SystemExit, match="has runs of another commit"):
        main(arguments)


def followed(*, is_in_range, predicts_change=True):
    return {"is_right": True, "followed": {"is_in_range": is_in_range, "predicts_change": predicts_change}}


def test_shares_are_wanted_of_verdicts_and_of_predictions():
    wrong = {"is_right": False}
    held, missed = followed(is_in_range=True), followed(is_in_range=False)
    assert find_faults([held] * 19 + [wrong]) == []
    assert find_faults([held] * 18 + [wrong]) == ["18 of 19 verdicts are right, 95% are wanted"]
    assert find_faults([held] * 4 + [missed]) == []
    assert "3 of 4 predictions held, 80% are wanted" in find_faults([held] * 3 + [missed])


def test_predictions_that_hold_if_nothing_happens_do_not_make_up_for_others():
    easy = followed(is_in_range=True, predicts_change=False)
    held, missed = followed(is_in_range=True), followed(is_in_range=False)
    eight_of_eleven = [easy] * 8 + [held] * 8 + [missed] * 3
    assert find_faults(eight_of_eleven) == ["8 of 11 predictions of a change held, 80% are wanted"]
    assert find_faults([easy] * 8) == ["no prediction of a change was tried"]
    assert find_faults([]) == ["no prediction was tried"]
