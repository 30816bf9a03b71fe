"""What the writing process of test_policy_weights.py runs; imported by name there."""

from __future__ import annotations

import torch

from sample_profiler.storage.policy_weights import PolicyWeights


def make_state(version: int) -> dict[str, torch.Tensor]:
    """Make weights of which each number says which version it is of."""
    return {
        "a": torch.full((200, 30), float(version)),
        "b": torch.full((7,), version, dtype=torch.int64),
        "c": torch.full((5000,), -float(version), dtype=torch.float64),
    }


def publish_versions(weights: PolicyWeights, last_version: int) -> None:
    """Publish versions 0 to `last_version` as fast as it goes."""
    torch.set_num_threads(1)
    for version in range(last_version + 1):
        weights.publish(make_state(version), version)
