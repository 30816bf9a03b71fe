import pytest
from torch import nn

from sample_profiler.compat.environments.registry import create_env, register_env
from sample_profiler.compat.networks.factory import global_model_factory
from sample_profiler.compat.networks.parts import default_make_encoder_func
from sample_profiler.compat.running.context import reset_global_context, sf_global_context
from sample_profiler.envs.registry import registered_envs
from sample_profiler.model import registry


def test_what_is_registered_is_forgotten(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    register_env("maze_of_context", lambda *_arguments: None)
    global_model_factory().register_encoder_factory(lambda cfg, space: nn.Identity())
    assert "maze_of_context" in sf_global_context().env_registry
    sf_global_context().env_registry["other_of_context"] = lambda *_arguments: None
    assert "other_of_context" in registered_envs()
    assert sf_global_context().model_factory.make_model_encoder_func is not default_make_encoder_func
    reset_global_context()
    assert "maze_of_context" not in registered_envs()
    with pytest.raises(ValueError, match="no environment is registered as 'maze_of_context'"):
        create_env("maze_of_context")
    assert global_model_factory().make_model_encoder_func is default_make_encoder_func
