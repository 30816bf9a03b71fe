"""What a step of a vector costs is measured on the real groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.measuring.runs import idle_vector_run
from benchmarks.vectors import vector_cost
from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.components.rollout_worker.vector_group import VectorGroup


def test_a_line_for_each_number_of_members(capsys):
    vector_cost.main(["--members", "2", "5", "--seconds", "0"])
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["2", "5"]
    assert all(float(cost) > 0 for line in lines for cost in line.split()[1:])


@pytest.mark.parametrize("kind", [SteppingGroup, VectorGroup])
def test_episodes_end_as_often_as_asked(kind):
    stepped = vector_cost.Stepped(kind, 4, 8)
    stepped.do_rollout()
    assert stepped.num_episodes == 4 * vector_cost.ROLLOUT // 8


def test_the_vector_of_whole_runs_speaks_as_it_is_to():
    for way, kind in (("arrays", np.ndarray), ("tensors", torch.Tensor)):
        idle = idle_vector_run.make_vector(way)
        assert idle.num_envs == 4096
        observations, _ = idle.reset()
        assert all(isinstance(values, kind) for values in (observations, *idle.step(None)[:4]))
