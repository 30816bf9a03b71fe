"""Profiles a training with Stable-Baselines3, which knows nothing of the profiler: PPO or A2C on CartPole-v1.

    pip install 'sample_profiler[sb3]'
    python -m sf_examples.standalone.train_sb3 --run_dir=runs/sb3    # some 30 s
    sample-profiler status runs/sb3                                  # meanwhile, or afterwards

A script of yours needs two lines: the session around `learn`, and the callback given to it:

    with profile_session(run_dir, "sb3") as timing:
        model.learn(100_000, callback=ProfilerCallback(timing))

The tree has `rollout` (`policy_forward`, `env_step`, the rest: buffers and callbacks) and `train` with a
`gradient_step` for each minibatch (`evaluate_actions`, `optimizer_step`, the rest: losses and their backward pass).
Algorithms that learn from a replay buffer have no gradient steps in theirs: they draw minibatches in another way.
"""

from __future__ import annotations

import argparse
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sample_profiler import Timing, profile_session
from sample_profiler.timers import set_gauge

try:
    from stable_baselines3 import A2C, PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.utils import safe_mean
except ImportError as error:
    raise SystemExit(
        f"this example trains with Stable-Baselines3, which cannot be imported: {error}; "
        "install it with: pip install 'sample_profiler[sb3]'"
    ) from error

logger = logging.getLogger(__name__)

ALGORITHMS: dict[str, Callable[..., A2C | PPO]] = {
    "ppo": functools.partial(PPO, n_steps=128, batch_size=256, learning_rate=1e-3),
    "a2c": functools.partial(A2C, n_steps=8),
}


class ProfilerCallback(BaseCallback):
    """Makes the stages of training blocks of a Timing, and the mean return of episodes a gauge.

    The methods it measures are replaced when training starts and put back when it ends.

    Args:
        timing: Where blocks are recorded.
    """

    def __init__(self, timing: Timing) -> None:
        super().__init__()
        self._timing = timing
        self._replaced: list[tuple[Any, str]] = []
        self._rollout: AbstractContextManager[Any] | None = None

    def _on_training_start(self) -> None:
        model = self.model
        self._measure(model.env, "step", "env_step")
        self._measure(model, "train", "train")
        self._measure(model.policy, "forward", "policy_forward")
        self._measure(model.policy, "evaluate_actions", "evaluate_actions")
        self._measure(model.policy.optimizer, "step", "optimizer_step")
        if hasattr(model, "rollout_buffer"):
            self._replace(model.rollout_buffer, "get", self._measure_gradient_steps(model.rollout_buffer.get))
        self._leave_out_of_checkpoints(model)

    def _on_rollout_start(self) -> None:
        self._rollout = self._timing.add_time("rollout")
        self._rollout.__enter__()

    def _on_rollout_end(self) -> None:
        self._end_rollout()
        if self.model.ep_info_buffer:
            set_gauge("return", safe_mean([episode["r"] for episode in self.model.ep_info_buffer]))

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self._end_rollout()  # a callback may have ended training in the middle of one
        for owner, name in self._replaced:
            delattr(owner, name)  # what the class has comes to light again
        self._replaced.clear()

    def _end_rollout(self) -> None:
        if self._rollout is not None:
            self._rollout.__exit__(None, None, None)
            self._rollout = None

    def _measure(self, owner: Any, name: str, key: str) -> None:
        method = getattr(owner, name)

        @functools.wraps(method)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self._timing.add_time(key):
                return method(*args, **kwargs)

        self._replace(owner, name, measured)

    def _measure_gradient_steps(self, get: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Return the iterator over minibatches with a block that is open while somebody learns from one."""

        def measured(batch_size: int | None = None) -> Iterator[Any]:
            for minibatch in get(batch_size):
                with self._timing.add_time("gradient_step"):
                    yield minibatch

        return measured

    def _leave_out_of_checkpoints(self, model: Any) -> None:
        """Let `model.save`, which pickles all attributes that it is not told of, leave out what is replaced here."""
        excluded = model._excluded_save_params
        own = ["train", "_excluded_save_params"]
        self._replace(model, "_excluded_save_params", lambda: [*excluded(), *own])

    def _replace(self, owner: Any, name: str, method: Callable[..., Any]) -> None:
        setattr(owner, name, method)
        self._replaced.append((owner, name))


def main(argv: Sequence[str] | None = None) -> int:
    """Train as the command line says and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run_dir", default="runs/sb3_cartpole", help="where the session goes")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="ppo")
    parser.add_argument("--num_steps", type=int, default=50_000, help="steps of all environments together")
    parser.add_argument("--num_envs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    env = make_vec_env("CartPole-v1", options.num_envs, seed=options.seed)
    model = ALGORITHMS[options.algorithm]("MlpPolicy", env, seed=options.seed, device="cpu")
    with profile_session(options.run_dir, "sb3") as timing:
        model.learn(options.num_steps, callback=ProfilerCallback(timing))
    env.close()
    if model.ep_info_buffer:
        logger.info("mean return: %.1f", safe_mean([episode["r"] for episode in model.ep_info_buffer]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
