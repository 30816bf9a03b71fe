"""Kills a process at random moments while it saves checkpoints, again and again, and loads what it left.

What was saved before the kill has to be there, whole, or something newer; what was being written may not be taken for
a checkpoint, and is gone after the next start. Some of the kills are of a real run, which the next one goes on with.

    python -m benchmarks.kill_checkpoints --kills 200 --run_kills 20
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from sample_profiler.storage.checkpoint_names import newest_steps
from sample_profiler.storage.checkpoints import CheckpointFolder

LONGEST_LIFE_S = 0.25
LONGEST_RUN_S = 7.0  # from a process that has not begun to import, past the first checkpoints of a start
RUN = (
    *("-m", "sf_examples.gym.train_gym", "--env=CartPole-v1", "--serial_mode=True", "--seed=1", "--device=cpu"),
    *("--num_workers=1", "--num_envs_per_worker=4", "--rollout=16", "--batch_size=64", "--num_batches_per_epoch=1"),
    *("--num_epochs=1", "--encoder_mlp_layers", "16", "--save_every_sec=0.05", "--save_best_every_sec=0.1"),
    *("--save_best_after=0", "--experiment=run"),
)
NUM_KEPT = 2


def make_state(number: int, num_weights: int) -> dict[str, Any]:
    """Return a state whose every piece says which one it is."""
    return {"model": {f"w{i}": torch.full((num_weights // 4,), float(number)) for i in range(4)}, "frames": number}


def is_whole(state: dict[str, Any], number: int, num_weights: int) -> bool:
    """Tell whether a state is the one of a number, to the last weight."""
    expected = make_state(number, num_weights)
    return state["frames"] == number and all(
        torch.equal(state["model"][name], weights) for name, weights in expected["model"].items()
    )


def save_for_ever(run_folder: Path, first: int, num_weights: int, told: int) -> None:
    """Save one state after the other, telling through a pipe what is saved."""
    folder = CheckpointFolder(run_folder, 0, NUM_KEPT)
    folder.remove_partials()
    number = first
    while True:
        folder.save(make_state(number, num_weights), number, number)
        os.write(told, number.to_bytes(8, "little"))
        if number % 3 == 0:
            folder.save_best(make_state(number, num_weights), number, number, "reward", float(number))
        number += 1


def kill_once(run_folder: Path, first: int, num_weights: int, rng: random.Random) -> tuple[int, bool]:
    """Let a process save for a moment and kill it.

    Returns:
        The number of the state that was saved last for certain, and whether the kill left an unfinished file.
    """
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(told)
            save_for_ever(run_folder, first, num_weights, tell)
        finally:  # only reached by an error
            traceback.print_exc()
            os._exit(1)
    os.close(tell)
    try:
        time.sleep(rng.uniform(0, LONGEST_LIFE_S))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise RuntimeError("the process that saves has failed by itself")
        with open(told, "rb", closefd=False) as pipe:
            numbers = pipe.read()
    finally:
        os.close(told)
    last = int.from_bytes(numbers[-8:], "little") if numbers else first - 1
    return last, any(path.name.startswith(".") for path in run_folder.rglob("*") if path.is_file())


def run_command(folder: Path, *flags: str) -> list[str]:
    """Return the command that trains on CartPole, going on with what is there."""
    return [sys.executable, *RUN, f"--train_dir={folder}", *flags]


def kill_run(folder: Path, rng: random.Random) -> str:
    """Let a real run go on for a moment and kill it.

    Returns:
        What is wrong with what it left; empty: nothing.
    """
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(run_command(folder), stdout=output, stderr=subprocess.STDOUT)
        try:
            time.sleep(rng.uniform(0, LONGEST_RUN_S))
            saved = newest_steps(folder / "run", 1)[0]  # is whole for certain
            has_ended = process.poll() is not None
        finally:
            process.kill()
            process.wait()
    if has_ended:
        return f"the run has ended by itself:\n{(folder / 'output.txt').read_text()}"
    state = CheckpointFolder(folder / "run", 0, NUM_KEPT).load("latest")
    found = 0 if state is None else int(state["optimizer_steps"])
    return "" if found >= saved else f"{saved} steps were saved, {found} were loaded"


def kill_runs(num_kills: int, rng: random.Random) -> str:
    """Kill a real run again and again, each going on with the one before, and let the last one come to its end.

    Returns:
        What is wrong; empty: nothing.
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        for kill in range(num_kills):
            if problem := kill_run(folder, rng):
                return f"kill {kill + 1} of a run: {problem}"
        state = CheckpointFolder(folder / "run", 0, NUM_KEPT).load("latest")
        target = 2000 + (0 if state is None else int(state["frames"]))
        command = run_command(folder, f"--train_for_env_steps={target}")
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        last = CheckpointFolder(folder / "run", 0, NUM_KEPT).load("latest")
        left = [str(path) for path in folder.rglob(".partial_*.pth")]
        if result.returncode or last is None or int(last["frames"]) < target or left:
            return (
                f"the run does not go on after {num_kills} kills (left over: {left}):\n{result.stdout}{result.stderr}"
            )
    return ""


def main() -> int:
    """Kill and load as often as asked; exit status 1 at the first loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="default: 200")
    parser.add_argument("--run_kills", type=int, default=20, help="of a real run, beside those; default: 20")
    parser.add_argument("--mb", type=float, default=4.0, help="size of a checkpoint; default: 4")
    parser.add_argument("--seed", type=int, default=0, help="of the moments; default: 0")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    num_weights = int(arguments.mb * 2**20 / 4)
    torch.set_num_threads(1)
    num_unfinished, saved, next_number = 0, -1, 0
    with tempfile.TemporaryDirectory() as directory:
        run_folder = Path(directory)
        for kill in range(arguments.kills):
            last, is_unfinished = kill_once(run_folder, next_number, num_weights, rng)
            num_unfinished += is_unfinished
            saved = max(saved, last)
            folder = CheckpointFolder(run_folder, 0, NUM_KEPT)
            folder.remove_partials()
            state = folder.load("latest")
            found = -1 if state is None else int(state["frames"])
            left = [path.name for path in folder.path.glob(".*")] if folder.path.exists() else []
            if found < saved or left or (state is not None and not is_whole(state, found, num_weights)):
                print(f"kill {kill + 1}: {saved} was saved, {found} was loaded; left over: {left}")
                return 1
            best = folder.load("best")
            if best is not None and not is_whole(best, int(best["frames"]), num_weights):
                print(f"kill {kill + 1}: the best checkpoint is damaged")
                return 1
            next_number = found + 1
    print(
        f"{arguments.kills} kills, {num_unfinished} of them while a file was being written; {next_number} checkpoints "
        "were saved, and after each kill the newest of them was loaded, whole"
    )
    if problem := kill_runs(arguments.run_kills, rng):
        print(problem)
        return 1
    print(f"{arguments.run_kills} kills of a run on CartPole: each start went on from the newest checkpoint")
    return 0


if __name__ == "__main__":
    sys.exit(main())
