"""Owns what Sample Factory's code has registered, all together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sample_profiler.compat.environments.registry import CreateEnv, forget_envs, global_env_registry
from sample_profiler.compat.networks.factory import ModelFactory, global_model_factory
from sample_profiler.model.registry import unregister_parts

__all__ = ["SampleFactoryContext", "reset_global_context", "sf_global_context"]


@dataclass(frozen=True)
class SampleFactoryContext:
    """What is registered in this process.

    Attributes:
        env_registry: What makes each environment, by name.
        model_factory: Where parts of networks are registered.
    """

    env_registry: Mapping[str, CreateEnv]
    model_factory: ModelFactory


def sf_global_context() -> SampleFactoryContext:
    """Return what is registered."""
    return SampleFactoryContext(global_env_registry(), global_model_factory())


def reset_global_context() -> None:
    """Forget environments and parts of networks, for what this process does from now on."""
    forget_envs()
    unregister_parts()
