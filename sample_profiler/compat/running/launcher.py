"""Owns grids of experiments and their command lines, as Sample Factory's launcher has them."""

from __future__ import annotations

import itertools
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["ALGO_VERSION", "Experiment", "ParamGenerator", "ParamGrid", "ParamList", "RunDescription", "seeds"]

Params = dict[str, Any]

ALGO_VERSION = 83
"""The number by which scripts of Sample Factory name their runs: that of its 2.1.1."""


def seeds(num_seeds: int) -> list[int]:
    """Draw seeds."""
    return [random.randrange(1_000_000, 9_999_999) for _ in range(num_seeds)]


class ParamGenerator:
    """Yields values of flags, one combination after the other."""

    def generate_params(self, randomize: bool = True) -> Iterator[Params]:
        """Yield combinations, in random order if `randomize`; those who derive from this have them."""
        raise NotImplementedError


class ParamList(ParamGenerator):
    """Combinations that are given one by one."""

    def __init__(self, combinations: Sequence[Params]) -> None:
        super().__init__()
        self.combinations = combinations

    def generate_params(self, randomize: bool = True) -> Iterator[Params]:
        """Yield them."""
        return iter(_ordered(list(self.combinations), randomize))


class ParamGrid(ParamGenerator):
    """All combinations of some values of each flag; a tuple of flags has tuples of values."""

    def __init__(self, grid_tuples: Iterable[tuple[Any, Sequence[Any]]]) -> None:
        super().__init__()
        self.grid = dict(grid_tuples)

    def generate_params(self, randomize: bool = False) -> Iterator[Params]:
        """Yield them; the last flag changes first."""
        if not self.grid:
            return
        for values in _ordered(list(itertools.product(*self.grid.values())), randomize):
            combination: Params = {}
            for name, value in zip(self.grid, values, strict=True):
                combination.update(zip(name, value, strict=True) if isinstance(name, tuple | list) else [(name, value)])
            yield combination


class Experiment:
    """A command line, and the flags to try with it.

    Args:
        name: Of all its runs.
        cmd: The command line without these flags.
        param_generator: Yields their values; none: one run, as it is.
        env_vars: Of the processes.
    """

    def __init__(
        self,
        name: str,
        cmd: str,
        param_generator: Iterable[Params] = (),
        env_vars: Mapping[str, str] | None = None,
    ) -> None:
        self.base_name = name
        self.cmd = cmd
        self.params = list(param_generator)
        self.env_vars = env_vars

    def generate_experiments(
        self, experiment_arg_name: str, customize_experiment_name: bool, param_prefix: str
    ) -> Iterator[tuple[str, str]]:
        """Yield the command line and the name of each run.

        Args:
            experiment_arg_name: The flag of the name.
            customize_experiment_name: Whether names tell the values.
            param_prefix: Comes before each flag.
        """
        for number, params in enumerate(self.params or [{}]):
            name = f"{number:02d}_{self.base_name}"
            if customize_experiment_name:
                name = "_".join([name, *(f"{short}_{params[flag]}" for flag, short in _abbreviated(params).items())])
            flags = [f"{param_prefix}{flag}={value}" for flag, value in params.items()]
            yield " ".join([self.cmd, *flags, f"{experiment_arg_name}={name}"]), name


class RunDescription:
    """Experiments that belong together.

    Args:
        run_name: Of all of them, and of their folder.
        experiments: What is run.
        experiment_arg_name: The flag of a run's name.
        experiment_dir_arg_name: The flag of its folder.
        customize_experiment_name: Whether names tell the values.
        param_prefix: Comes before each flag.

    Attributes:
        experiment_suffix: Is added to the names of folders.
    """

    def __init__(
        self,
        run_name: str,
        experiments: Sequence[Experiment],
        experiment_arg_name: str = "--experiment",
        experiment_dir_arg_name: str = "--train_dir",
        customize_experiment_name: bool = True,
        param_prefix: str = "--",
    ) -> None:
        self.run_name = run_name
        self.experiments = experiments
        self.experiment_suffix = ""
        self.experiment_arg_name = experiment_arg_name
        self.experiment_dir_arg_name = experiment_dir_arg_name
        self.customize_experiment_name = customize_experiment_name
        self.param_prefix = param_prefix

    def generate_experiments(
        self, train_dir: str, makedirs: bool = True
    ) -> Iterator[tuple[str, str, str, Mapping[str, str] | None]]:
        """Yield of each run its command line, its name, its folder within `train_dir`, and variables of its process.

        Args:
            train_dir: Folder of all.
            makedirs: Whether to make the folders.
        """
        for experiment in self.experiments:
            root_dir = os.path.join(self.run_name, f"{experiment.base_name}_{self.experiment_suffix}")
            folder = os.path.join(train_dir, root_dir)
            if makedirs:
                os.makedirs(folder, exist_ok=True)
            for cmd, name in experiment.generate_experiments(
                self.experiment_arg_name, self.customize_experiment_name, self.param_prefix
            ):
                yield f"{cmd} {self.experiment_dir_arg_name}={folder}", name, root_dir, experiment.env_vars


def _ordered(combinations: list[Any], randomize: bool) -> list[Any]:
    return random.sample(combinations, len(combinations)) if randomize else combinations


def _abbreviated(names: Iterable[str]) -> dict[str, str]:
    """Return each name as the first letters of its words, and as many of the last one as tell it from the others."""
    short: dict[str, str] = {}
    for name in names:
        *first, last = re.split("[._-]", name)
        lengths = range(min(3, len(last)), len(last) + 1)
        candidates = [".".join([*(word[:1] for word in first), last[:length]]) for length in lengths]
        short[name] = next((each for each in candidates if each not in short.values()), candidates[-1])
    return short
