"""Owns the names of a run's components: what they are made of, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    *("BATCHER", "EVALUATION_WORKER", "EVALUATOR", "INFERENCE_WORKER", "LEARNER", "REMOTE_SAMPLER", "ROLLOUT_WORKER"),
    *("RUNNER", "SLEEPERS", "ComponentId", "name_in_rank", "rollout_worker_index"),
]

BATCHER = "Batcher"
EVALUATION_WORKER = "EvaluationWorker"
EVALUATOR = "Evaluator"
INFERENCE_WORKER = "InferenceWorker"
LEARNER = "Learner"
REMOTE_SAMPLER = "RemoteSampler"
ROLLOUT_WORKER = "RolloutWorker"
RUNNER = "Runner"

SLEEPERS = (ROLLOUT_WORKER, LEARNER)
"""Kinds of which the Runner looks what they sleep for."""

_NAME = re.compile(r"(?P<kind>[A-Za-z]+)(?:_(?:p(?P<owner>[0-9]{1,9})-)?(?P<is_worker>w)?(?P<number>[0-9]{1,9}))?")


@dataclass(frozen=True)
class ComponentId:
    """Which component: its text is the name that logs, records and commands have, such as `InferenceWorker_p0-w1`.

    Attributes:
        kind: of component.
        policy: that it works for; None: for any.
        index: among those of its kind, or of its kind and policy; None: there is one.
    """

    kind: str
    policy: int | None = None
    index: int | None = None

    def __str__(self) -> str:
        if self.index is None:
            return self.kind if self.policy is None else f"{self.kind}_{self.policy}"
        return f"{self.kind}_w{self.index}" if self.policy is None else f"{self.kind}_p{self.policy}-w{self.index}"

    @classmethod
    def parse(cls, name: str) -> ComponentId:
        """Return what a name is made of; of one that is of no component of ours it is all kind."""
        match = _NAME.fullmatch(name)
        if match is None:
            return cls(name)
        kind, owner, number = match["kind"], match["owner"], match["number"]
        if number is None:
            return cls(kind)
        if match["is_worker"]:
            return cls(kind, None if owner is None else int(owner), int(number))
        return cls(name) if owner else cls(kind, int(number))


def rollout_worker_index(name: str) -> int | None:
    """Return which RolloutWorker a component is, by its name; None: it is none."""
    parsed = ComponentId.parse(name)
    return parsed.index if parsed.kind == ROLLOUT_WORKER else None


def name_in_rank(name: str, rank: int) -> str:
    """Return what a component is called where those of several ranks are looked at as one; the first keeps its name."""
    return f"rank {rank} {name}" if rank else name
