"""Who is wired to whom."""

from __future__ import annotations

from sample_profiler.run.layout.blueprint import frames_per_step
from sample_profiler.runtime.messages.channels import LocalChannel


def test_there_is_a_channel_for_every_arrow_and_none_twice(make_blueprint):
    blueprint = make_blueprint("--num_policies=2", "--num_workers=3", "--policy_workers_per_policy=2")
    channels = blueprint.channels
    assert len(channels.requests) == 3
    assert all(requests is channels.requests[0] for requests in channels.requests), "the workers share them"
    by_policy = [channels.requests[0], channels.finished, channels.datasets, channels.trained, channels.first_weights]
    assert [len(group) for group in by_policy] == [2] * 5
    assert [len(group) for group in (channels.actions, channels.free)] == [3, 3]
    assert [len(group) for group in channels.first_weights] == [2, 2]
    flat = [c for group in (*by_policy[:4], channels.actions, channels.free, *channels.first_weights) for c in group]
    assert len({id(channel) for channel in flat}) == len(flat) == 2 * 4 + 3 * 2 + 4
    assert all(isinstance(channel, LocalChannel) for channel in flat)


def test_a_frame_is_an_environment_step_unless_frameskip_is_to_be_ignored(make_blueprint):
    assert frames_per_step(make_blueprint("--env_frameskip=4").config) == 4
    assert frames_per_step(make_blueprint("--env_frameskip=4", "--summaries_use_frameskip=False").config) == 1
