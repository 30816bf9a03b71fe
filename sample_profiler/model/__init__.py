"""Actor-critic networks, encoders, cores, action distributions, normalization. Knows no losses and no processes.

The names below load when they are first used: a script registers its own encoder without PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sample_profiler.model.actor_critic import ActorCritic, make_actor_critic
    from sample_profiler.model.distributions import ActionDistribution
    from sample_profiler.model.normalization import RunningMeanStd
    from sample_profiler.model.policy_network import PolicyNetwork

__all__ = ["ActionDistribution", "ActorCritic", "PolicyNetwork", "RunningMeanStd", "make_actor_critic"]

_MODULE_OF_NAME = {
    "ActionDistribution": "sample_profiler.model.distributions",
    "ActorCritic": "sample_profiler.model.actor_critic",
    "PolicyNetwork": "sample_profiler.model.policy_network",
    "RunningMeanStd": "sample_profiler.model.normalization",
    "make_actor_critic": "sample_profiler.model.actor_critic",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use (PEP 562)."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF_NAME[name]), name)
    globals()[name] = value
    return value
