"""Why the state of a checkpoint does not fit a network, in words."""

from __future__ import annotations

import pytest
from torch import nn

from sample_profiler.storage.mismatch import describe_mismatch


def test_the_first_tensor_of_each_kind_is_named():
    network, other = (
        nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4)),
        nn.Sequential(nn.Linear(3, 5), nn.ELU(), nn.PReLU()),
    )
    with pytest.raises(RuntimeError) as caught:
        network.load_state_dict(other.state_dict())
    assert describe_mismatch(caught.value) == (
        "the checkpoint has no 1.weight, which the network has; "
        "the checkpoint has 2.weight, which the network has not; "
        "0.weight is [5, 3] in the checkpoint and [4, 3] in the network"
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("it says -1 frames"), "it says -1 frames"),
        (ValueError("first\nsecond"), "first"),
        (KeyError(), "KeyError"),
    ],
)
def test_other_errors_speak_for_themselves(error, words):
    assert describe_mismatch(error) == words
