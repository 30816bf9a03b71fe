"""Train each Doom scenario that has a name for a while, and print whether each of them trains.

Every scenario and match is the ordinary training script in a process of its own, with a small network. The exit status
is 1 if one of them fails, hangs or trains on nothing; the end of its log is printed then.

    python -m benchmarks.scenarios
    python -m benchmarks.scenarios --only doom_basic doom_duel --frames 5000
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from sf_examples.vizdoom.doom_matches import DOOM_MATCHES
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS

SCENARIOS = (*DOOM_SCENARIOS, *DOOM_MATCHES)
_FLAGS = (
    *("--num_workers=2", "--num_envs_per_worker=2", "--rollout=16", "--batch_size=128", "--device=cpu"),
    *("--res_w=64", "--res_h=36", "--encoder_conv_mlp_layers", "64", "--rnn_size=64", "--log_to_file=False"),
)
_LIMIT_S = 600.0
_COLLECTED = re.compile(r"Collected \{0: (\d+)\}, FPS: ([\d.]+)")


def train_scenario(name: str, num_frames: int, folder: Path) -> str:
    """Train one scenario, and return what went wrong; empty text if nothing did.

    Args:
        name: of the environment.
        num_frames: to train on.
        folder: where the run's folder is made.
    """
    command = [sys.executable, "-m", "sf_examples.vizdoom.train_vizdoom", f"--env={name}", *_FLAGS]
    command += [f"--train_for_env_steps={num_frames}", f"--train_dir={folder}", f"--experiment={name}"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"it has not ended after {_LIMIT_S:g} s"
    return find_problem(run.returncode, run.stdout + run.stderr, num_frames)


def find_problem(status: int, output: str, num_frames: int) -> str:
    """Return what is wrong with a run that has ended; empty text if nothing is.

    Args:
        status: of its exit.
        output: its log.
        num_frames: that it was to train on.
    """
    if status:
        return f"exit status {status}:\n{output[-3000:]}"
    collected = _COLLECTED.search(output)
    if collected is None or int(collected[1]) < num_frames:
        return f"it has not trained on {num_frames:,} frames:\n{output[-3000:]}"
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Train all, print how each went; the exit status is 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=SCENARIOS, help="which; default: all")
    parser.add_argument("--frames", type=int, default=20_000, help="frames to train each on")
    options = parser.parse_args(argv)
    num_failed = 0
    with tempfile.TemporaryDirectory(prefix="sample_profiler_scenarios_") as folder:
        for name in options.only:
            begin_s = time.monotonic()
            problem = train_scenario(name, options.frames, Path(folder))
            num_failed += bool(problem)
            print(f"{name:36}{'FAILED' if problem else 'trains':8}{time.monotonic() - begin_s:6.1f} s", flush=True)
            if problem:
                print(problem, flush=True)
    print(f"{len(options.only) - num_failed} of {len(options.only)} scenarios train")
    return int(num_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
