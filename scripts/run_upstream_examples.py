"""Runs the example programs and the tests of a checkout of Sample Factory, unchanged, with this package in its place.

    python scripts/run_upstream_examples.py CHECKOUT [--only NAME,NAME] [--keep FOLDER]

Each program is trained for a few thousand frames, resumed, and played. Left out is what needs a package that is not
installed or is not in the checkout's version, and tests of what is inside Sample Factory: its Learner, its shared
memory, populations. One of ViZDoom's opens a window: a machine without a display needs `xvfb-run` before the command.
Prints a table, and the last lines of what failed. Exit status 1 if anything did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 300
TESTS_TIMEOUT_S = 1800
NEEDS = "needs"
SMALL = ("--num_workers=2", "--num_envs_per_worker=2", "--batch_size=256", "--rollout=32", "--save_every_sec=5")
PLAYED = ("--no_render", "--max_num_episodes=1")
TAIL_LINES = 8


@dataclass(frozen=True)
class Example:
    """A program that trains, and one that plays.

    Attributes:
        name: Of the row.
        train: Module, within `sf_examples`.
        play: Module; empty: there is none.
        flags: Of both.
        training_flags: Of the first alone.
        frames: To train on at first; then as many again.
        needs: Module that has to be installed.
    """

    name: str
    train: str
    play: str
    flags: tuple[str, ...]
    training_flags: tuple[str, ...] = ()
    frames: int = 2048
    needs: str = "gymnasium"


EXAMPLES = (
    Example(
        "custom env and model",
        "train_custom_env_custom_model",
        "enjoy_custom_env_custom_model",
        ("--env=my_custom_env_v1", "--custom_env_episode_len=50"),
    ),
    Example(
        "custom env serial",
        "train_custom_env_custom_model",
        "enjoy_custom_env_custom_model",
        ("--env=my_custom_env_v1", "--custom_env_episode_len=50"),
        ("--serial_mode=True", "--async_rl=False"),
    ),
    Example(
        "custom env batched",
        "train_custom_env_custom_model",
        "enjoy_custom_env_custom_model",
        ("--env=my_custom_env_v1", "--custom_env_episode_len=50"),
        ("--batched_sampling=True",),
    ),
    Example("gym", "train_gym_env", "enjoy_gym_env", ("--env=CartPole-v1",), ("--use_rnn=False", "--reward_scale=0.1")),
    Example(
        "custom multi-agent", "train_custom_multi_env", "enjoy_custom_multi_env", ("--env=my_custom_multi_env_v1",)
    ),
    Example(
        "multi-agent two policies",
        "train_custom_multi_env",
        "enjoy_custom_multi_env",
        ("--env=my_custom_multi_env_v1",),
        ("--num_policies=2",),
    ),
    Example(
        "pettingzoo",
        "train_pettingzoo_env",
        "enjoy_pettingzoo_env",
        ("--env=tictactoe_v3",),
        needs="pettingzoo.classic",
    ),
    Example(
        "mujoco",
        "mujoco.train_mujoco",
        "mujoco.enjoy_mujoco",
        ("--env=mujoco_pendulum",),
        ("--num_batches_per_epoch=1",),
        needs="mujoco",
    ),
    Example(
        "mujoco evaluated",
        "mujoco.train_mujoco",
        "mujoco.fast_eval_mujoco",
        ("--env=mujoco_doublependulum",),
        ("--num_batches_per_epoch=1",),
        needs="mujoco",
    ),
    Example(
        "atari",
        "atari.train_atari",
        "atari.enjoy_atari",
        ("--env=atari_breakout",),
        ("--num_batches_per_epoch=1",),
        needs="ale_py",
    ),
    Example("vizdoom", "vizdoom.train_vizdoom", "vizdoom.enjoy_vizdoom", ("--env=doom_basic",), needs="vizdoom"),
    Example(
        "vizdoom measurements",
        "vizdoom.train_vizdoom",
        "vizdoom.enjoy_vizdoom",
        ("--env=doom_battle",),
        needs="vizdoom",
    ),
    Example(
        "vizdoom own scenario",
        "vizdoom.train_custom_vizdoom_env",
        "vizdoom.enjoy_custom_vizdoom_env",
        ("--env=doom_my_custom_env",),
        needs="vizdoom",
    ),
    Example(
        "nethack",
        "nethack.train_nethack",
        "nethack.enjoy_nethack",
        # Pictures for the other model are cut out by arithmetic of bytes, which overflow with NumPy 2.
        ("--env=nethack_score", "--model=ScaledNet", "--add_image_observation=False", "--max_episode_steps=200"),
        needs="nle",
    ),
    Example(
        "envpool",
        "envpool.mujoco.train_envpool_mujoco",
        "envpool.mujoco.enjoy_envpool_mujoco",
        ("--env=mujoco_doublependulum",),
        ("--num_batches_per_epoch=1", "--num_envs_per_worker=1", "--env_agents=4"),
        needs="envpool",
    ),
    Example(
        "sampler",
        "sampler.use_simplified_sampling_api",
        "",
        ("--env=atari_breakout",),
        ("--num_batches_per_epoch=1", "--train_for_env_steps=4096"),
        needs="ale_py",
    ),
)


@dataclass(frozen=True)
class Tests:
    """Tests of the checkout.

    Attributes:
        name: Of the row.
        paths: Within the checkout.
        needs: Module that has to be installed.
        left_out: Names of those that look into what is inside there, and is not here.
    """

    name: str
    paths: tuple[str, ...]
    needs: str = "pytest"
    left_out: tuple[str, ...] = ()


TESTS = (
    Tests("tests of helpers", ("tests/test_precheck.py", "tests/test_utils.py", "tests/test_launcher.py")),
    Tests(
        "tests of tensors and networks",
        tuple(
            f"tests/algo/test_{name}.py"
            for name in ("tensordict", "rms", "spaces", "model_builder", "action_distributions")
        ),
    ),
    Tests("tests of a network", ("tests/algo/test_model.py",), needs="ale_py"),
    Tests("tests of tuples", ("tests/envs/tuple_action_envs",), needs="onnxruntime"),
    Tests("tests of one agent", ("tests/examples/test_example.py",), "onnxruntime", left_out=("test_chk_envs",)),
    Tests("tests of agents", ("tests/examples/test_example_multi.py",), needs="onnxruntime"),
    Tests("tests of sampling", ("tests/examples/test_example_sampler.py",), needs="mujoco"),
    Tests("tests of mujoco", ("tests/envs/mujoco/test_mujoco.py",), needs="mujoco"),
    Tests("tests of atari", ("tests/envs/atari/test_atari.py",), needs="ale_py"),
    Tests("tests of pettingzoo", ("tests/envs/pettingzoo",), needs="pettingzoo.classic"),
    Tests("tests of vizdoom", ("tests/envs/vizdoom",), needs="vizdoom"),
    Tests(
        "tests of envpool",
        ("tests/envs/mujoco/test_envpool_mujoco.py", "tests/envs/atari/test_envpool_atari.py"),
        "envpool",
    ),
    Tests("tests of dmlab", ("tests/envs/dmlab",)),
)


@dataclass(frozen=True)
class Outcome:
    """How one command ended.

    Attributes:
        word: For the table.
        text: The last lines of what it printed, if it failed.
    """

    word: str
    text: str = ""


def main() -> int:
    """Run the examples and the tests, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path, help="folder in which sf_examples is")
    parser.add_argument("--only", default="", help="names of rows, between commas")
    parser.add_argument("--keep", type=Path, help="folder for the runs, which stays")
    arguments = parser.parse_args()
    if not (arguments.checkout / "sf_examples").is_dir():
        parser.error(f"{arguments.checkout} is no checkout of Sample Factory: it has no sf_examples")
    checkout = arguments.checkout.absolute()
    wanted = {name.strip() for name in arguments.only.split(",") if name.strip()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.keep or Path(temporary)).absolute()
        rows = {
            each.name: run_example(each, checkout, folder) if isinstance(each, Example) else run_tests(each, checkout)
            for each in (*EXAMPLES, *TESTS)
            if not wanted or each.name in wanted
        }
    return report(rows)


def run_example(example: Example, checkout: Path, folder: Path) -> dict[str, Outcome]:
    """Train, resume and play.

    Args:
        example: What to run.
        checkout: Where its modules are.
        folder: Of all runs.
    """
    modules = [f"sf_examples/{name.replace('.', '/')}.py" for name in (example.train, example.play) if name]
    if obstacle := why_left_out(checkout, modules, example.needs):
        return {"trains": obstacle}
    place = [f"--train_dir={folder}", f"--experiment={example.name.replace(' ', '_')}"]
    common = ["--algo=APPO", "--device=cpu", *example.flags, *place]
    training = [*common, *SMALL, *example.training_flags]
    outcomes: dict[str, Outcome] = {}
    if not example.play:
        return {"trains": run(example.train, training, checkout)}
    for word, frames in (("trains", example.frames), ("resumes", 2 * example.frames)):
        outcomes[word] = run(example.train, [*training, f"--train_for_env_steps={frames}"], checkout)
        if outcomes[word].text:
            return outcomes
    played = ["--sample_env_episodes=2"] if "eval" in example.play else PLAYED
    return outcomes | {"plays": run(example.play, [*common, *played], checkout)}


def run_tests(tests: Tests, checkout: Path) -> dict[str, Outcome]:
    """Run tests, and count how they ended.

    Args:
        tests: What to run.
        checkout: Where they are.
    """
    if obstacle := why_left_out(checkout, tests.paths, tests.needs):
        return {"tests": obstacle}
    left_out = ["-k", " and ".join(f"not {name}" for name in tests.left_out)] if tests.left_out else []
    words = ["-q", "-p", "no:cacheprovider", *tests.paths, *left_out]
    status, lines = call("pytest", words, checkout, TESTS_TIMEOUT_S)
    counts = lines[-1].strip("= ").partition(" in ")[0] if lines else ""
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {"tests": Outcome(counts, "\n  ".join(["", *failed, *lines[-TAIL_LINES:]]) if status else "")}


def why_left_out(checkout: Path, paths: Iterable[str], needs: str) -> Outcome | None:
    """Tell what a row has to be left out for: a package, or a file that other versions have; None: nothing."""
    if not is_installed(needs):
        return Outcome(f"{NEEDS} {needs}")
    missing = [path for path in paths if not (checkout / path).exists()]
    return Outcome(f"{NEEDS} {missing[0]}") if missing else None


def is_installed(module: str) -> bool:
    """Tell whether a module is there, without importing more than what it is in."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def run(module: str, flags: list[str], checkout: Path) -> Outcome:
    """Run a module of the examples."""
    status, lines = call(f"sf_examples.{module}", flags, checkout, TIMEOUT_S)
    if status == 0:
        return Outcome("yes")
    return Outcome(f"status {status}", "\n  ".join([" ".join([module, *flags]), *lines[-TAIL_LINES:]]))


def call(module: str, words: list[str], checkout: Path, timeout_s: int) -> tuple[int, list[str]]:
    """Run a module with this package in Sample Factory's place; return its exit status and what it printed."""
    command = [sys.executable, "-m", "sample_profiler.compat", "-m", module, *words]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            command,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, [f"did not end within {timeout_s} s"]
    return done.returncode, done.stdout.decode(errors="replace").strip().splitlines()


def report(rows: dict[str, dict[str, Outcome]]) -> int:
    """Print the table and what failed; return the exit status."""
    columns = ("trains", "resumes", "plays", "tests")
    width = max(map(len, rows))
    print("".ljust(width), *(column.ljust(12) for column in columns))
    for name, outcomes in rows.items():
        words = [outcomes[column].word if column in outcomes else "" for column in columns]
        print(name.ljust(width), *(word.ljust(12) for word in words))
    ran = [outcomes for outcomes in rows.values() if not any(each.word.startswith(NEEDS) for each in outcomes.values())]
    green = [outcomes for outcomes in ran if not any(outcome.text for outcome in outcomes.values())]
    print(f"\n{len(green)} of {len(ran)} as they should")
    for name, outcomes in rows.items():
        for column, outcome in outcomes.items():
            if outcome.text:
                print(f"\n{name}, {column}: {outcome.text}")
    return 0 if ran and len(green) == len(ran) else 1


if __name__ == "__main__":
    sys.exit(main())
