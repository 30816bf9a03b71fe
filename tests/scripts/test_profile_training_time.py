"""The training-time profile: every command of its guide, and that its figures add up."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sf_examples.petri_net.training_profile import (
    COMPONENTS,
    Profile,
    ProfiledTraining,
    compare_profiles,
    format_profile,
)
from tests.integration.runs import run as run_module

ROOT = Path(__file__).parents[2]
SHARE = re.compile(r"^(.*?) +(-?[\d.]+)s \( *(-?[\d.]+)%\)", re.MULTILINE)


def run(*flags: str, folder: Path, script: str = "profile_training_time.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / script), *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


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


def test_pn9_recommendations_follow_from_the_shares_and_name_the_bound() -> None:
    text = format_profile(make_profile(10.0), breakdown=False)
    assert "- environment is 31 % of the time: a 2x faster one saves at most 15 %" in text


def test_pn10_the_simulation_alone_is_profiled(tmp_path: Path) -> None:
    done = run("--steps=300", folder=tmp_path, script="profile_turbo_mode.py")
    assert done.returncode == 0, done.stderr
    assert re.search(r"turbo is [\d.]+ times as fast", done.stdout)
    assert done.stdout.count("due to restriction <30>") == 2


@pytest.mark.parametrize("turbo", ["True", "False"])
def test_pn11_the_net_is_an_environment_like_any_other(turbo: str, tmp_path: Path) -> None:
    """So `sample-profiler compare` compares any option of it, as of all others."""
    flags = (f"--turbo={turbo}", "--num_workers=1", "--num_envs_per_worker=4", "--batch_size=256", "--num_wafers=3")
    module = "sf_examples.petri_net.train_petri_net"
    result = run_module(module, "--serial_mode=True", *flags, "--train_for_env_steps=2000", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "Collected" in result.stdout
