"""Owns what a run asks of this machine before it begins: open files for its processes, and a GPU.

Without a GPU it imports no PyTorch.
"""

from __future__ import annotations

from sample_profiler.config import Config, is_surely_on_cpu
from sample_profiler.errors import ConfigError
from sample_profiler.runtime.machine.open_files import allow_open_files

__all__ = ["allow_processes", "choose_device"]

# The pipes to and from a process, and what else the Runner has open for it: at most 12. And what it opens now and then.
_FILES_PER_PROCESS = 12
_FILES_IN_RESERVE = 64


def allow_processes(config: Config, num_own: int = 0) -> None:
    """See to it that this process may open as many files as its children need, before anything is overwritten.

    Args:
        config: of the run.
        num_own: how many components of the user's own it has.

    Raises:
        ConfigError: the system's limit is too low.
    """
    sampling = config.sampling
    if sampling.serial_mode:
        return
    per_policy = 2 + (0 if sampling.inference == "worker" else sampling.policy_workers_per_policy)
    per_policy += bool(config.evaluation.eval_every_steps)
    num_processes = sampling.num_workers + sampling.num_policies * per_policy + num_own
    num_processes += config.remote.backend == "ray"
    num_files = _FILES_PER_PROCESS * num_processes + _FILES_IN_RESERVE
    if sampling.inference == "worker":  # a pipe from each policy's Learner to each worker, for the first weights
        num_files += 2 * sampling.num_workers * sampling.num_policies
    if obstacle := allow_open_files(num_files):
        raise ConfigError(
            [
                f"a run of {num_processes:,} processes cannot begin: {obstacle}: use a smaller --num_workers with a "
                "larger --num_envs_per_worker, or have the limit raised (ulimit -Hn, LimitNOFILE of a service, "
                "--ulimit nofile of a container)"
            ]
        )


def choose_device(config: Config) -> str:
    """Return "cuda" or "cpu" as `--device` asks.

    Raises:
        ConfigError: a GPU is asked for and there is none.
    """
    if is_surely_on_cpu(config.run.device):
        return "cpu"
    import torch  # only now: without a GPU the main process does without it

    if torch.cuda.is_available():
        return "cuda"
    if config.run.device == "gpu":
        raise ConfigError(["--device=gpu: PyTorch finds no GPU on this machine: use --device=cpu or --device=auto"])
    return "cpu"
