"""Typed options and their two other forms, the command line and config.json; all validation is here.

A flag is a field of a part (:mod:`sample_profiler.config.parts`). An environment family adds parts and defaults of its
own: frozen, keyword-only dataclasses whose fields have a docstring literal each, declared with :func:`option` where a
number has limits. A part may have a method ``find_problems`` that yields what is wrong between its values.
"""

from __future__ import annotations

from sample_profiler.config.command_line import wants_help
from sample_profiler.config.conditions import Condition, parse_conditions
from sample_profiler.config.config import Config, Origin
from sample_profiler.config.help import FlagDescription, PartDescription, describe_parts, format_help
from sample_profiler.config.limits import option
from sample_profiler.config.parse import given_values, merge_saved, parse_config, parse_run_config
from sample_profiler.config.parts import (
    EnvironmentOptions,
    FaultOptions,
    LossOptions,
    MachineOptions,
    ModelOptions,
    ObservationOptions,
    OptimizerOptions,
    ProfilingOptions,
    RemoteOptions,
    RunOptions,
    SamplingOptions,
    SavingOptions,
    is_surely_on_cpu,
    num_usable_cores,
)
from sample_profiler.config.saved import load_config, save_config
from sample_profiler.config.values import show_value

__all__ = [
    "Condition",
    "Config",
    "EnvironmentOptions",
    "FaultOptions",
    "FlagDescription",
    "LossOptions",
    "MachineOptions",
    "ModelOptions",
    "ObservationOptions",
    "OptimizerOptions",
    "Origin",
    "PartDescription",
    "ProfilingOptions",
    "RemoteOptions",
    "RunOptions",
    "SamplingOptions",
    "SavingOptions",
    "describe_parts",
    "format_help",
    "given_values",
    "is_surely_on_cpu",
    "load_config",
    "merge_saved",
    "num_usable_cores",
    "option",
    "parse_conditions",
    "parse_config",
    "parse_run_config",
    "save_config",
    "show_value",
    "wants_help",
]
