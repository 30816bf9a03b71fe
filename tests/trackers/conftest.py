"""A run's folder with figures in it, as a tracker finds it, and trackers that remember what they are told."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config, save_config
from sample_profiler.reports.tensorboard import SummaryFile
from sample_profiler.run_folder import RunFolder

NAMES = ("reward/reward", "len/len")


class Remembering:
    """A tracker that remembers."""

    def __init__(self, run, told):
        self.run_id, self.place, self.told = run.id, f"at {run.name}", told
        told.append(("begin", run))

    def log(self, points):
        self.told += [("point", point) for point in points]

    def add_files(self, paths):
        self.told.append(("files", {path.name: path.read_text() for path in paths}))

    def close(self, outcome):
        self.told.append(("close", outcome))


@pytest.fixture
def make_run(tmp_path):
    """Return what makes the folder of a run of its name and flags, with these steps of each policy in its files."""

    def make(name="doom", *flags, steps=((),)):
        folder = RunFolder(tmp_path / "train_dir" / name)
        folder.path.mkdir(parents=True, exist_ok=True)
        words = ["--env=CartPole-v1", f"--experiment={name}", f"--num_policies={len(steps)}", *flags]
        save_config(parse_config(words), folder.config)
        for policy, its_steps in enumerate(steps):
            write_points(folder, policy, its_steps)
        return folder

    return make


def write_points(folder, policy, steps):
    """Write a file with a point at each step: the reward is half of it, the length twice."""
    file = SummaryFile(folder.summary_of(policy), 1)
    for step in steps:
        file.write(dict(zip(NAMES, (step / 2, step * 2), strict=True)), step)
    file.close()
