"""What `whatif` is checked with: predictions that know the slow run alone, and real gains from runs in turn."""

from __future__ import annotations

import contextlib
import json
import mmap
from pathlib import Path

import pytest

from benchmarks.checks import whatif_check
from benchmarks.checks.whatif_check import Outcome, main, outcome
from benchmarks.measuring.runs.whatif_cases import CASES, MIXED, Case, DelayedRun, injected_share
from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.whatif import STAGE_BLOCKS
from sample_profiler.cli import main as cli
from sample_profiler.cli.slowing import Pair
from sample_profiler.errors import SessionError
from tests.analysis.made_runs import inference, learner, load


def facts(*loads, seconds=8.0):
    return RunFacts(seconds, 0.0, 5000.0, 4, 0.3, False, loads)


def env_worker(index=0, cpu=0.4, delays=800, steps=4000):
    """One that works 60 % of its time, 50 % of it in env_step; 800 delays of 2 ms in 8 s are 20 %."""
    blocks = {"env_step": 0.5, "env_step/env_reset": 0.1, "env_step/injected": 0.3}
    counts = {"env_step": steps, "env_step/injected": delays}
    return load(f"RolloutWorker_w{index}", 0.6, {}, blocks, counts, cpu=cpu)


def made(slow, fast, share=0.5, asked=((150.0, 100.0),) * 6, most=9.0):
    asked = [list(pair) for pair in asked]
    return {"injected_share": share, "asked": asked, "most": most, "limit": "inference", "slow": slow, "fast": fast}


COMPUTES, WAITS = ({"env_ms": 2.0, "computes": computes} for computes in (1, 0))


def test_the_delay_is_a_share_of_what_its_stage_does_by_itself():
    """Its wall is 30 of 50 %, most of which are for want of a processor: of 40 % of a core, 5 of 6 are env_step."""
    compared = facts(env_worker(0), env_worker(1, cpu=0.8))
    assert injected_share(compared, Case("env", COMPUTES)) == pytest.approx((0.2 + 0.2) / (1.2 * 5 / 6))
    assert injected_share(compared, Case("env", WAITS)) == pytest.approx(0.41 / (1.2 * 5 / 6 + 0.41)), "0.05 ms late"
    both = Case("env", {"env_ms": 2.0, "computes": 0.25})
    assert injected_share(compared, both) == pytest.approx(0.41 / (1.2 * 5 / 6 + 0.75 * 0.41))


def test_the_delay_is_found_wherever_it_is_spent():
    head = "train/calculate_losses/forward_head"
    trains = learner(0.5, {"train": 0.4, f"{head}/injected": 0.09}, cpu=0.5)
    trains.counts.update({f"{head}/injected": 80})
    found = injected_share(facts(env_worker(), trains), Case("learner", {"learner_ms": 10.0, "computes": 1}))
    assert found == pytest.approx(0.1 / 0.4)


def test_a_delay_of_each_row_is_told_by_how_many_rows_there_are():
    """4,000 steps of 8 environments each take 0.05 ms a row in 8 s: 20 %, in however many calls."""
    answers = inference(0.5, cpu=0.5)
    answers.counts.update({"handle_policy_step/forward/injected": 3000})
    block = answers.blocks["handle_policy_step"] / answers.busy
    found = injected_share(facts(env_worker(), answers), Case("inference", {"inference_row_ms": 0.05, "computes": 1}))
    assert found == pytest.approx(0.2 / (0.5 * block))


@pytest.mark.parametrize("worker", [env_worker(delays=0), env_worker(cpu=0.1)], ids=["none", "more than there was"])
def test_a_run_without_a_delay_has_none_to_take_away(worker):
    with pytest.raises(SessionError, match="the run has none to take away"):
        injected_share(facts(worker), Case("env", COMPUTES))


def test_the_prediction_comes_from_slowed_stages_and_the_gain_from_delays_that_are_taken_away():
    # A weight of 1, and half of the stage taken away: twice the throughput.
    found = outcome("env", "env", [made([100.0, 100.0], [190.0, 210.0]), made([200.0], [410.0])])
    assert found.predicted == pytest.approx(1.0)
    assert found.interval == pytest.approx((1.0, 1.0)) and found.limit == ""
    assert found.gains == pytest.approx((0.9, 1.1, 1.05))
    assert found.seen == pytest.approx(1.05) and found.held
    assert outcome("env", "env", [made([100.0], [120.0])]).predicted == found.predicted


def test_all_runs_are_asked_and_the_one_in_the_middle_counts():
    results = [made([1.0], [1.0], share=share, most=most) for share, most in ((0.1, 0.1), (0.5, 9.0), (0.9, 99.0))]
    assert outcome("env", "env", results).predicted == pytest.approx(1.0)
    results[0]["asked"] = [[150.0, 150.0]] * 6
    results[1]["asked"] = [[150.0, 150.0]] * 7
    assert outcome("env", "env", results).predicted == 0, "more pairs say that nobody waits for it"


def test_what_else_works_bounds_the_prediction_and_its_interval():
    found = outcome("env", "env", [made([1.0], [1.0], most=0.3)])
    assert found.predicted == 0.3 and found.interval == (0.3, 0.3) and found.limit == "inference"


@pytest.mark.parametrize(("predicted", "held"), [(0.3, True), (0.41, True), (0.45, False), (0.15, False)])
def test_ten_points_are_the_limit(predicted, held):
    found = Outcome("env", predicted, (0.2, 0.4), "", (0.25, 0.32, 0.4))
    assert found.held == held
    assert ("NOT held" in found.describe()) != held


def test_all_that_is_needed_to_judge_it_is_told():
    text = Outcome("env", 0.3, (0.22, 0.401), "the processors", (0.25, 0.34, 0.4)).describe()
    assert text == (
        "env: +30 % predicted (95 % interval +22 to +40 %, bounded by the processors); "
        "+34 % seen (+25 to +40 %, 3 pairs); 4 points apart: held"
    )


@pytest.mark.parametrize(("gain", "cure"), [(0.1, "give 3 times"), (1.5, "give 0.2 times"), (-0.02, "a larger")])
def test_delays_of_another_size_are_told_with_the_cure(gain, cure):
    assert cure in Outcome("env", gain, None, "", (gain,) * 3).describe()


def test_a_scale_is_of_the_delay_alone():
    for case in (CASES | MIXED).values():
        twice = case.scaled(2)
        assert twice.flags == case.flags and twice.injected.keys() == case.injected.keys()
        changed = {name: value for name, value in twice.injected.items() if value != case.injected[name]}
        ((name, delay),) = changed.items()
        assert name.startswith(case.stage) and name.endswith("_ms") and delay == 2 * case.injected[name]
    assert [case.stage for case in CASES.values()] == list(STAGE_BLOCKS)


def test_a_delay_is_taken_away_and_given_back_where_it_is_mapped(tmp_path):
    run = DelayedRun(tmp_path, tmp_path / "switch")
    run.switch.write_bytes(bytes([True]))
    with run.switch.open("rb") as file, mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ) as mapped:
        seen = [mapped[0]]
        for is_on in (False, True):
            run.set_delay(is_on)
            seen.append(mapped[0])
    assert seen == [1, 0, 1]


def test_stages_are_slowed_as_the_command_does_by_itself():
    command = cli._make_parser().parse_args(["whatif", "train_dir/run"])
    assert command.slower == whatif_check._SHARE
    assert (command.rounds, 3 * whatif_check._ROUNDS) == (10, 12), "of the three runs together some more"
    assert (command.seconds, command.settle) == (None, None), "choose_lengths, for both"


class MadeRun:
    """A run that has its delay until it is taken away; its figures follow from whether it has."""

    def __init__(self, case):
        self.case = case
        self.folder = Path("run")
        self.switched = []

    def set_delay(self, is_on):
        self.switched.append(is_on)

    @property
    def has_delay(self):
        return not self.switched or self.switched[-1]


@pytest.fixture
def runs(monkeypatch):
    """Have runs that step 100 times a second with a delay, and by a share more often without; keep them."""
    made = []

    @contextlib.contextmanager
    def live_run(case):
        made.append(MadeRun(case))
        yield made[-1]

    def install(gain):
        def look(_, seconds):
            steps = round(100 * seconds * (1 if made[-1].has_delay else 1 + gain))
            answers, trains = inference(0.3), learner(0.3)
            answers.counts["handle_policy_step/forward/injected"] = 100
            trains.counts["train/calculate_losses/forward_head/injected"] = 100
            # 40 % of a third of a core.
            delays = round(0.4 / 3 * seconds / (made[-1].case.injected.get("env_ms", 1.0) / 1000))
            return facts(env_worker(delays=delays, steps=steps), answers, trains, seconds=seconds)

        monkeypatch.setattr(whatif_check, "look", look)
        return made

    def measure_pairs(client, folder, stages, share, seconds, settle_s, rounds):
        for _ in range(rounds):
            yield Pair(stages[0], 100.0, 100.0 / 1.45, whatif_check.look(folder, seconds))

    monkeypatch.setattr(whatif_check, "live_run", live_run)
    monkeypatch.setattr(whatif_check, "measure_pairs", measure_pairs)
    monkeypatch.setattr(whatif_check, "ControlClient", lambda folder: contextlib.ExitStack())
    monkeypatch.setattr(whatif_check, "choose_lengths", lambda folder, seconds: (seconds or 3.0, 0.0))
    return install


# A weight of 0.9, of which 40 % are the delay: 56 % more without it.
@pytest.mark.parametrize(("gain", "status"), [(0.5, 0), (0.3, 1)])
def test_the_status_tells_whether_predictions_hold(runs, tmp_path, capsys, gain, status):
    made = runs(gain)
    assert main(["--cases", "env", "--runs", "2", "--output", str(tmp_path / "runs.jsonl")]) == status
    output = capsys.readouterr().out
    assert "env: +56 % predicted (95 % interval +56 to +56 %)" in output
    assert f"+{100 * gain:.0f} % seen (+{100 * gain:.0f} to +{100 * gain:.0f} %, 8 pairs)" in output
    assert f"{1 - status} of 1 predictions within ten points" in output
    assert [run.switched for run in made] == [[False, True, True, True, False, True] * 2] * 2


def test_the_three_stages_are_checked_and_other_kinds_when_asked(runs, tmp_path):
    made = runs(0.5)
    main(["--runs", "2", "--output", str(tmp_path / "runs.jsonl")])
    assert [run.case.stage for run in made[::2]] == ["env", "inference", "learner"]
    made.clear()
    main(["--mixed", "--runs", "2", "--output", str(tmp_path / "runs.jsonl")])
    assert [run.case for run in made[::2]] == list(MIXED.values())


def test_every_run_is_kept_with_its_setting_and_an_interrupted_call_goes_on(runs, tmp_path, monkeypatch):
    made = runs(0.5)
    output = tmp_path / "results" / "runs.jsonl"
    arguments = ["--cases", "env", "--output", str(output)]

    def look_until_it_is_stopped(*arguments):
        if len(made) == 3:
            raise KeyboardInterrupt
        return look(*arguments)

    look = whatif_check.look
    monkeypatch.setattr(whatif_check, "look", look_until_it_is_stopped)
    with pytest.raises(KeyboardInterrupt):
        main(arguments)
    setting, *kept = map(json.loads, output.read_text().splitlines())
    assert setting.keys() >= {"machine", "commit", "seconds", "rounds", "scale"}
    assert [each["case"] for each in kept] == ["env", "env"]
    made.clear()
    monkeypatch.setattr(whatif_check, "look", look)
    assert main(arguments) == 0
    assert len(made) == 1
    with pytest.raises(SystemExit, match="has runs of another scale: give another --output"):
        main([*arguments, "--scale", "2"])


def test_one_run_is_too_few(capsys):
    with pytest.raises(SystemExit):
        main(["--runs", "1"])
    assert "--runs 1: give 2 or more" in capsys.readouterr().err
