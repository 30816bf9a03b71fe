"""The parts of the configuration, one file and one frozen dataclass for each group of flags.

A component is given the parts it needs, never the whole. The docstring literal under a field is the flag's ``--help``;
a part's class docstring is the group's title there.
"""

from __future__ import annotations

from sample_profiler.config.parts.environment import EnvironmentOptions
from sample_profiler.config.parts.evaluation import EvaluationOptions, ManyEpisodesOptions, TrainingEvaluationOptions
from sample_profiler.config.parts.faults import FaultOptions
from sample_profiler.config.parts.loss import LossOptions
from sample_profiler.config.parts.machine import MachineOptions
from sample_profiler.config.parts.model import ModelOptions
from sample_profiler.config.parts.observations import ObservationOptions
from sample_profiler.config.parts.optimizer import OptimizerOptions
from sample_profiler.config.parts.profiling import ProfilingOptions
from sample_profiler.config.parts.remote import RemoteOptions
from sample_profiler.config.parts.run import RunOptions, is_surely_on_cpu
from sample_profiler.config.parts.sampling import SamplingOptions, num_usable_cores
from sample_profiler.config.parts.saving import SavingOptions
from sample_profiler.config.parts.tracking import TrackingOptions

__all__ = [
    "EnvironmentOptions",
    "EvaluationOptions",
    "FaultOptions",
    "LossOptions",
    "MachineOptions",
    "ManyEpisodesOptions",
    "ModelOptions",
    "ObservationOptions",
    "OptimizerOptions",
    "ProfilingOptions",
    "RemoteOptions",
    "RunOptions",
    "SamplingOptions",
    "SavingOptions",
    "TrackingOptions",
    "TrainingEvaluationOptions",
    "is_surely_on_cpu",
    "num_usable_cores",
]
