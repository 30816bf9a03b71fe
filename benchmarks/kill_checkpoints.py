"""Kills a process at random moments while it saves checkpoints, again and again, and loads what it left.

What was saved before the kill has to be there, whole, or something newer; what was being written may not be taken for
a checkpoint, and is gone after the next start.

    python -m benchmarks.kill_checkpoints --kills 200
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from sample_profiler.storage.checkpoints import CheckpointFolder

LONGEST_LIFE_S = 0.25
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
            folder.save_best(make_state(number, num_weights), number, number, metric=float(number))
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


def main() -> int:
    """Kill and load as often as asked; exit status 1 at the first loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="default: 200")
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
