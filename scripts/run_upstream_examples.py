"""Runs the example programs of a checkout of Sample Factory, unchanged, with this package in its place.

    python scripts/run_upstream_examples.py CHECKOUT [--only NAME,NAME] [--keep FOLDER]

Each is trained for a few thousand frames, resumed, and played; what needs a package that is not installed is left out.
Prints a table, and the last lines of what failed. Exit status 1 if anything did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 300
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
    Example("nethack", "nethack.train_nethack", "nethack.enjoy_nethack", ("--env=nethack_score",), needs="nle"),
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
class Outcome:
    """How one command ended.

    Attributes:
        word: For the table.
        text: The last lines of what it printed, if it failed.
    """

    word: str
    text: str = ""


def main() -> int:
    """Run the examples and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path, help="folder in which sf_examples is")
    parser.add_argument("--only", default="", help="names of rows, between commas")
    parser.add_argument("--keep", type=Path, help="folder for the runs, which stays")
    arguments = parser.parse_args()
    if not (arguments.checkout / "sf_examples").is_dir():
        parser.error(f"{arguments.checkout} is no checkout of Sample Factory: it has no sf_examples")
    wanted = {name.strip() for name in arguments.only.split(",") if name.strip()}
    examples = [example for example in EXAMPLES if not wanted or example.name in wanted]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.keep or Path(temporary)).absolute()
        rows = {example.name: run_example(example, arguments.checkout.absolute(), folder) for example in examples}
    return report(rows)


def run_example(example: Example, checkout: Path, folder: Path) -> dict[str, Outcome]:
    """Train, resume and play.

    Args:
        example: What to run.
        checkout: Where its modules are.
        folder: Of all runs.
    """
    if not is_installed(example.needs):
        return {"trains": Outcome(f"needs {example.needs}")}
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


def is_installed(module: str) -> bool:
    """Tell whether a module is there, without importing more than what it is in."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def run(module: str, flags: list[str], checkout: Path) -> Outcome:
    """Run a module of the checkout."""
    command = [sys.executable, "-m", "sample_profiler.compat", "-m", f"sf_examples.{module}", *flags]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            command,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome("too slow", f"{' '.join(command)}\n  did not end within {TIMEOUT_S} s")
    if done.returncode == 0:
        return Outcome("yes")
    lines = done.stdout.decode(errors="replace").strip().splitlines()[-TAIL_LINES:]
    return Outcome(f"status {done.returncode}", "\n  ".join([" ".join(command), *lines]))


def report(rows: dict[str, dict[str, Outcome]]) -> int:
    """Print the table and what failed; return the exit status."""
    columns = ("trains", "resumes", "plays")
    width = max(map(len, rows))
    print("example".ljust(width), *(column.ljust(12) for column in columns))
    for name, outcomes in rows.items():
        words = [outcomes[column].word if column in outcomes else "" for column in columns]
        print(name.ljust(width), *(word.ljust(12) for word in words))
    ran = [outcomes for outcomes in rows.values() if not outcomes["trains"].word.startswith("needs")]
    green = [outcomes for outcomes in ran if not any(outcome.text for outcome in outcomes.values())]
    print(f"\n{len(green)} of {len(ran)} as they should")
    for name, outcomes in rows.items():
        for column, outcome in outcomes.items():
            if outcome.text:
                print(f"\n{name}, {column}: {outcome.text}")
    return 0 if len(green) == len(ran) else 1


if __name__ == "__main__":
    sys.exit(main())
