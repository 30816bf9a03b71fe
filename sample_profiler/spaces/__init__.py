"""What the rest of the package needs to know about observation and action spaces. numpy only."""

from sample_profiler.spaces.actions import (
    action_batch_converter,
    action_converter,
    action_dtype,
    action_parts,
    action_width,
    draw_action,
    flatten_action,
    is_discrete,
    num_action_parameters,
    part_width,
)
from sample_profiler.spaces.as_data import space_from_data, space_to_data
from sample_profiler.spaces.checks import check_action_space, check_observation_space
from sample_profiler.spaces.env_spec import AgentSpaces, EnvSpec
from sample_profiler.spaces.masks import ACTION_MASK_KEY, split_action_mask
from sample_profiler.spaces.observations import (
    DEFAULT_OBSERVATION_KEY,
    as_dict_space,
    encoded_shape,
    flatten_observation,
    is_in_range,
    is_lossless,
    is_nested,
    normalized_keys,
    num_entries,
    value_range,
)
from sample_profiler.spaces.plain import plain_space, space_of_agent

__all__ = [
    "ACTION_MASK_KEY",
    "DEFAULT_OBSERVATION_KEY",
    "AgentSpaces",
    "EnvSpec",
    "action_batch_converter",
    "action_converter",
    "action_dtype",
    "action_parts",
    "action_width",
    "as_dict_space",
    "check_action_space",
    "check_observation_space",
    "draw_action",
    "encoded_shape",
    "flatten_action",
    "flatten_observation",
    "is_discrete",
    "is_in_range",
    "is_lossless",
    "is_nested",
    "normalized_keys",
    "num_action_parameters",
    "num_entries",
    "part_width",
    "plain_space",
    "space_from_data",
    "space_of_agent",
    "space_to_data",
    "split_action_mask",
    "value_range",
]
