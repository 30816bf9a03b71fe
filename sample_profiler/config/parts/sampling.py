"""Options of sampling: how experience is collected and cut into batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import automatic_option, option
from sample_profiler.profiling.process.usable_cores import num_usable_cores

__all__ = ["SamplingOptions", "num_usable_cores"]


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """Sampling and batches."""

    num_policies: int = option(1, minimum=1, maximum=100)
    """Number of policies trained together, each with a learner of its own."""

    async_rl: bool = True
    """Collect new experience while the learner trains on the last. False: collect, train, collect, and so on."""

    serial_mode: bool = False
    """Run all components in one process, one after another; simplest to debug and to profile."""

    batched_sampling: bool = False
    """Each environment is a vector of many that one call steps: a gymnasium.vector.VectorEnv, or a simulator of the
    kind, with arrays of numpy, tensors or DLPack. Its members are agents whose episodes end one by one. What is no
    vector is stepped as without the flag."""

    num_batches_to_accumulate: int = option(2, minimum=1, maximum=1_000_000)
    """Number of complete training batches that may wait for the learner before sampling pauses."""

    worker_num_splits: int = option(2, minimum=1, maximum=32)
    """Number of groups into which a worker divides its environments: while one waits for actions, another steps. 1
    switches this double buffering off; groups that step in less than a quarter of a millisecond ask together anyway.
    Where a family's environments were put into as many workers as there are cores, the default is 1 with --device=cpu,
    and with --device=auto where there is no driver of a GPU."""

    policy_workers_per_policy: int = option(1, minimum=1, maximum=100)
    """Number of inference workers for each policy."""

    inference: Literal["process", "worker"] = "process"
    """Where actions are drawn: in inference workers, processes of their own that serve all rollout workers (process),
    or in each rollout worker for its own environments (worker): no messages, smaller batches, and PyTorch in each."""

    transport: Literal["auto", "pipe", "fifo"] = "auto"
    """How messages travel between the processes of a run: through kernel pipes (pipe), or as signals of signal-slot-mp
    through queues of faster-fifo in shared memory (fifo). auto: what took less time when it was measured, pipe. In
    serial mode there is nothing to choose."""

    max_policy_lag: int = option(1000, minimum=0)
    """Oldest experience the learner accepts, in policy versions between collecting it and training on it."""

    num_workers: int = automatic_option(num_usable_cores, "number of usable cores", minimum=1, maximum=1000)
    """Number of rollout workers: processes that step environments. Where an environment family has more than there are
    cores, its environments go into at most as many workers as cores, unless one of both numbers is given."""

    num_envs_per_worker: int = option(-1, minimum=1, maximum=100_000, also=-1)
    """Number of environments in each rollout worker; at least worker_num_splits. -1: 2 to 32, as many as together fill
    what the learner trains on at once with one rollout each; with batched_sampling, one for each group."""

    batch_size: int = option(1024, minimum=1, maximum=10**9)
    """Minibatch size in agent steps; a multiple of rollout."""

    num_batches_per_epoch: int = option(1, minimum=1, maximum=1_000_000)
    """Number of minibatches collected for each round of training."""

    num_epochs: int = option(1, minimum=1)
    """Number of passes over each round's experience."""

    rollout: int = option(32, minimum=1, maximum=1_000_000)
    """Length of one trajectory in agent steps."""

    recurrence: int = option(-1, minimum=1, also=-1)
    """Number of steps through which gradients flow back in time; divides rollout. -1: rollout with an RNN, else 1."""

    shuffle_minibatches: bool = False
    """Shuffle experience between minibatches and epochs; adds work in the learner."""

    decorrelate_experience_max_seconds: float = option(0.0, minimum=0, maximum=86400)
    """Longest pause, in seconds, with which workers start so that their episodes do not all begin together."""

    decorrelate_envs_on_one_worker: bool = True
    """Let the environments of a group begin with different numbers of random steps (from 0 rollouts for the first to 15
    for the 16th, then from 0 again), so that episodes of a fixed length do not all end at once. Episodes that begin so
    are in no statistic."""
