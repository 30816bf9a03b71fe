"""The training-time profile: every command of its guide, and that its figures add up."""

from __future__ import annotations

import cProfile
import importlib.util
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

from harness.runs import run as run_module
from sf_examples.petri_net import training_profile
from sf_examples.petri_net.training_profile import (
    COMPONENTS,
    Profile,
    ProfiledTraining,
    compare_profiles,
    format_profile,
)

pytestmark = pytest.mark.whole_run

ROOT = Path(__file__).parents[2]
SHARE = re.compile(r"^(.*?) +(-?[\d.]+)s \( *(-?[\d.]+)%\)", re.MULTILINE)


def run(*flags: str, folder: Path, script: str = "profile_training_time.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / script), *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def load(script: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(script, ROOT / "scripts" / f"{script}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "flags",
    [
        "--compare --batches 5",
        "--compare --batches 5 --breakdown",
        "--turbo --batches 10",
        "--no-turbo --batches 10",
        "--compare --batches 10 --detailed",
    ],
)
def test_pn1_every_command_of_the_guide_runs(flags: str, tmp_path: Path) -> None:
    options = ["--repeats=1", "--warm-up=1"] if "--compare" in flags else ["--warm-up=1"]
    done = run(*flags.split(), *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    modes = {"--compare": ["OFF", "ON"], "--turbo": ["ON"], "--no-turbo": ["OFF"]}[flags.split()[0]]
    assert re.findall(r"^Turbo (\w+):", done.stdout, re.MULTILINE) == modes
    assert ("Turbo Mode Comparison Report" in done.stdout) == ("--compare" in flags)
    assert ("Policy Forward" in done.stdout) == ("--breakdown" in flags), "PN3"
    written = {path.name for path in tmp_path.iterdir()}
    expected = {"profile_training_turbo_off.txt", "profile_training_turbo_on.txt"} if "--detailed" in flags else set()
    assert written == expected, "PN4"
    for name in written:
        assert re.search(r"due to restriction <50>[\s\S]*run_batch", (tmp_path / name).read_text())


def test_pn1_both_modes_at_once_are_an_error(tmp_path: Path) -> None:
    done = run("--turbo", "--no-turbo", folder=tmp_path)
    assert done.returncode == 2
    assert "not allowed with argument" in done.stderr


@pytest.mark.parametrize(
    ("script", "flags", "message"),
    [
        ("profile_turbo_mode", "--steps=0", "argument --steps: '0': give a number from 1 on"),
        ("profile_turbo_mode", "--num-wafers=-1", "argument --num-wafers: '-1': give a number of wafers from 1 to 100"),
        ("profile_training_time", "--turbo --num-wafers=101", "give a number of wafers from 1 to 100"),
        ("profile_training_time", "--turbo --batches=0", "argument --batches: '0': give a number from 1 on"),
        ("profile_training_time", "--turbo --seed=-1", "argument --seed: '-1': give a seed from 0"),
        ("profile_training_time", f"--turbo --detailed --output-dir={__file__}", "cannot be made: File exists"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_measured(
    script: str, flags: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refusal:
        load(script).main(flags.split())
    assert refusal.value.code == 2
    output = capsys.readouterr()
    assert message in output.err
    assert not output.out


@pytest.fixture(scope="module")
def profile() -> Profile:
    training = ProfiledTraining(turbo=True, seed=1)
    training.run_batch()
    before = training.profile()
    for _ in range(2):
        training.run_batch()
    return training.profile() - before


def test_pn2_and_pn3_all_components_have_seconds_share_and_bar(profile: Profile) -> None:
    text = format_profile(profile, breakdown=True)
    titles = [title.strip() for title, *_ in SHARE.findall(text)]
    for title in ("Data Collection", "GAE Computation", "Replay Buffer Ops", "Training Loop"):
        assert any(found.endswith(title) for found in titles), title
    for title in ("Env Step", "Policy Forward", "Tensor Handling", "Env Reset", "Extend", "Sample", "Loss Computation"):
        assert f"- {title}" in titles
    assert "█" in text


def test_pn5_parts_and_an_honest_rest_are_the_whole(profile: Profile) -> None:
    assert sum(profile.seconds[key] for key in COMPONENTS) + profile.rest == pytest.approx(profile.total)
    assert 0 <= profile.rest < 0.1 * profile.total
    text = format_profile(profile, breakdown=False)
    top = [float(share) for title, _, share in SHARE.findall(text) if re.match(r"\d\. ", title)]
    assert len(top) == 5
    assert sum(top) == pytest.approx(100, abs=0.25), "five shares, each rounded to 0.1"
    for key, (_, parts) in COMPONENTS.items():
        assert sum(profile.seconds.get(f"{key}/{part}", 0.0) for part in parts) <= profile.seconds[key] + 1e-9


def test_pn6_steps_and_resets_are_counted_and_the_observation_advances() -> None:
    training = ProfiledTraining(turbo=False, seed=1)
    training.run_batch()
    profile = training.profile()
    assert profile.num_steps == 512
    assert profile.num_resets >= 3, "random play spoils wafers soon"
    observations = training._buffer["obs"]
    assert (observations[1:] != observations[:-1]).any(dim=1).all()
    chosen = training._buffer["masks"].gather(1, training._buffer["actions"][:, None])
    assert (chosen == 1).all(), "only legal actions"


def make_profile(total: float) -> Profile:
    seconds = {key: total / 4 for key in COMPONENTS}
    return Profile(total, seconds | {"data_collection/env_step": total * 0.31}, 1, 512)


class MadeUpTraining:
    """Takes a second for each batch, and a hundred under cProfile."""

    is_profiled = False

    def __init__(self, *, turbo: bool, num_wafers: int, seed: int) -> None:
        self.total = 0.0

    def run_batch(self) -> None:
        self.total += 100.0 if MadeUpTraining.is_profiled else 1.0

    def profile(self) -> Profile:
        return make_profile(self.total)


class NoticedProfiler(cProfile.Profile):
    """Slows made-up trainings down, as a profiler does."""

    def enable(self, *arguments: bool) -> None:
        MadeUpTraining.is_profiled = True
        super().enable(*arguments)

    def disable(self) -> None:
        super().disable()
        MadeUpTraining.is_profiled = False


def test_pn4_batches_under_cprofile_are_in_no_figure_and_a_missing_folder_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(training_profile, "ProfiledTraining", MadeUpTraining)
    monkeypatch.setattr(cProfile, "Profile", NoticedProfiler)
    folder = tmp_path / "not" / "there"
    flags = ("--compare", "--batches=2", "--repeats=2", "--warm-up=1", "--detailed", f"--output-dir={folder}")
    assert load("profile_training_time").main(flags) == 0
    output = capsys.readouterr().out
    assert re.findall(r"^Total +([\d.]+)s", output, re.MULTILINE) == ["4.00", "4.00"]
    for mode in ("off", "on"):
        assert re.search(r"MadeUp|run_batch", (folder / f"profile_training_turbo_{mode}.txt").read_text())
    assert output.count("2 further batches under cProfile, which are in no figure above") == 2


@pytest.mark.parametrize("seconds", [(1 / 3, 1 / 3, 1 / 3, 0.0), (0.00055,) * 4, (0.12345, 0.23455, 0.11115, 0.0)])
def test_pn5_printed_shares_add_up(seconds: tuple[float, ...]) -> None:
    parts = dict(zip(COMPONENTS, seconds, strict=True))
    inside = {f"data_collection/{part}": seconds[0] / 7 for part in COMPONENTS["data_collection"][1]}
    text = format_profile(Profile(1.0, parts | inside, 1, 512), breakdown=True)
    lines = text.partition("Recommendations")[0].splitlines()
    shares = {line[:28].strip(): float(match[1]) for line in lines if (match := re.search(r"\(([ \d.]+)%\)", line))}
    numbered = [share for title, share in shares.items() if title[0].isdigit()]
    assert len(numbered) == len(COMPONENTS) + 1
    assert sum(numbered) == pytest.approx(100) and shares["Total"] == 100
    collection = lines[lines.index(next(line for line in lines if line.startswith("1."))) + 1 :][:5]
    inside_shares = [float(re.search(r"\(([ \d.]+)%\)", line)[1]) for line in collection]  # type: ignore[index]
    assert sum(inside_shares) == pytest.approx(shares["1. Data Collection"])


def test_pn8_noise_is_called_no_measurable_difference_and_a_difference_by_its_size() -> None:
    noisy = [1.0, 1.1, 0.9, 1.05, 0.97, 1.02, 0.95, 1.08]
    text = compare_profiles([make_profile(t) for t in noisy], [make_profile(t) for t in noisy[::-1]])
    assert "Speedup:              no measurable difference" in text
    text = compare_profiles([make_profile(t) for t in noisy], [make_profile(t / 1.25) for t in noisy])
    assert re.search(r"Speedup: +\+25\.0 % \(95 % interval \+25\.0 % to \+25\.0 %, 8 pairs\)", text)
    text = compare_profiles([make_profile(t) for t in noisy], [make_profile(t / 1.01) for t in noisy])
    assert re.search(r"Speedup: +\+1\.0 % \(95 % interval", text), "no difference is too small to be told"
    text = compare_profiles([make_profile(1.0)] * 3, [make_profile(0.5)] * 3)
    assert "no measurable difference (+100.0 %; 3 of the 6 pairs that an interval takes)" in text


def test_pn8_rows_are_tested_together_so_that_one_of_several_does_not_differ_by_chance() -> None:
    noisy = [1.0, 1.1, 0.9, 1.05, 0.97, 1.02, 0.95, 1.08]
    plain, turbo = [make_profile(t) for t in noisy], [make_profile(t) for t in noisy[::-1]]
    # Seven pairs of eight point one way: p is 1/64 alone, and above 0.05 as one of six.
    for off, on, seconds in zip(plain, turbo, [0.95] * 7 + [1.001], strict=True):
        off.seconds["data_collection/env_step"], on.seconds["data_collection/env_step"] = 1.0, seconds
    row = next(line for line in compare_profiles(plain, turbo).splitlines() if "Env Step" in line)
    assert "no measurable difference as one of 6 rows (95 % interval" in row, "alone it has an interval above 0"
    for on in turbo:
        on.seconds["data_collection/env_step"] = 0.5
    row = next(line for line in compare_profiles(plain, turbo).splitlines() if "Env Step" in line)
    assert "+100.0 %" in row, "what is clear stays so"


def test_pn9_recommendations_follow_from_the_shares_and_name_the_bound() -> None:
    text = format_profile(make_profile(10.0), breakdown=False)
    assert "- environment is 31 % of the time: a 2× faster one saves at most 15 %" in text


def test_pn10_the_simulation_alone_is_profiled(tmp_path: Path) -> None:
    done = run("--steps=300", folder=tmp_path, script="profile_turbo_mode.py")
    assert done.returncode in (0, 1), done.stderr
    assert re.search(r"turbo is [\d.]+ times as fast", done.stdout)
    assert done.stdout.count("due to restriction <30>") == 2


@pytest.mark.parametrize(("ratio", "status"), [(0.3, 1), (1.99, 1), (2.01, 0)])
def test_pn7_a_turbo_that_is_less_than_twice_as_fast_fails(
    ratio: float, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load("profile_turbo_mode")
    monkeypatch.setattr(script, "simulate", lambda _actions, *, turbo, **_: 1000.0 * (ratio if turbo else 1))
    assert script.main([]) == status
    assert f"turbo is {ratio:.2f} times as fast; it has to be 2 times" in capsys.readouterr().out


def test_pn10_training_with_turbo_is_training_without_it_number_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    losses: list[float] = []
    backward = torch.autograd.backward

    def note(loss: torch.Tensor) -> None:
        losses.append(loss.item())
        backward(loss)

    monkeypatch.setattr(torch.autograd, "backward", note)
    plain, turbo = trainings = [ProfiledTraining(turbo=is_turbo, seed=3) for is_turbo in (False, True)]
    for _ in range(3):
        for training in trainings:
            training.run_batch()
        half = len(losses) // 2
        assert losses[:half] == losses[half:]
        losses.clear()
        for key, column in plain._buffer.items():
            assert torch.equal(column, turbo._buffer[key]), key
    assert plain.profile().num_resets == turbo.profile().num_resets > 0
    others = dict(turbo._policy.named_parameters())
    for name, parameter in plain._policy.named_parameters():
        assert torch.equal(parameter, others[name]), name


@pytest.mark.parametrize("turbo", ["True", "False"])
def test_pn11_the_net_is_an_environment_like_any_other(turbo: str, tmp_path: Path) -> None:
    """So `sample-profiler compare` compares any option of it, as of all others."""
    flags = (f"--turbo={turbo}", "--num_workers=1", "--num_envs_per_worker=4", "--batch_size=256", "--num_wafers=3")
    module = "sf_examples.petri_net.train_petri_net"
    result = run_module(module, "--serial_mode=True", *flags, "--train_for_env_steps=2000", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "Collected" in result.stdout
