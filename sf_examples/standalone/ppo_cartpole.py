"""Profiles a training script that knows nothing of this package but its profiler: PPO for CartPole-v1 in one file.

    python -m sf_examples.standalone.ppo_cartpole --run_dir=runs/cartpole    # about 15 s; returns approach 500
    sample-profiler status runs/cartpole                                     # meanwhile, or afterwards

The profiler is in the lines marked with `# profiler`, ten of them: a session that other processes can look into while
it goes on, a Timing whose blocks nest into a tree, a decorator for a function, and gauges. Take them out and the
training is as it was. Any other script is profiled in the same way; `docs/profiling.md` tells what to do with it.

The algorithm is PPO with a clipped objective (Schulman et al. 2017, arXiv:1707.06347, equation 7) and advantages by
GAE (Schulman et al. 2016, arXiv:1506.02438, equation 16), where what follows a truncated episode has the value of
that episode's last observation.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import flatdim
from gymnasium.vector import AutoresetMode
from torch import nn

from sample_profiler import profile_session  # profiler
from sample_profiler.timers import set_gauge, timed  # profiler

logger = logging.getLogger(__name__)

NUM_ENVS, ROLLOUT, NUM_EPOCHS, NUM_MINIBATCHES = 8, 128, 6, 4
DISCOUNT, GAE_LAMBDA, CLIP, ENTROPY_COEFFICIENT, VALUE_COEFFICIENT, MAX_GRADIENT = 0.98, 0.95, 0.2, 0.005, 0.5, 0.5
LEARNING_RATE = 2e-3


class Policy(nn.Module):
    """Logits of the actions and the value of an observation."""

    def __init__(self, observation_size: int, num_actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(observation_size, 64), nn.Tanh(), nn.Linear(64, num_actions))
        self.critic = nn.Sequential(nn.Linear(observation_size, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, observations: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        """Return the distribution of the actions, and values `[n]` of observations `[n, size]`."""
        logits = self.actor(observations)
        return torch.distributions.Categorical(logits=logits, validate_args=False), self.critic(observations)[:, 0]


class Rollout:
    """What `ROLLOUT` steps of all environments left: arrays `[ROLLOUT, NUM_ENVS, …]`."""

    def __init__(self, observation_size: int) -> None:
        shape = (ROLLOUT, NUM_ENVS)
        self.observations = torch.zeros(*shape, observation_size)
        self.actions = torch.zeros(shape, dtype=torch.int64)
        self.log_probabilities, self.rewards, self.dones, self.values, self.next_values = torch.zeros(5, *shape)


@timed  # profiler
def estimate_advantages(rollout: Rollout) -> torch.Tensor:
    """Return `A_t = d_t + γλ(1 - done_t) A_{t+1}` with `d_t = r_t + γ V(s_{t+1}) - V(s_t)`."""
    advantages = torch.zeros_like(rollout.rewards)
    following = torch.zeros(NUM_ENVS)
    for t in reversed(range(ROLLOUT)):
        difference = rollout.rewards[t] + DISCOUNT * rollout.next_values[t] - rollout.values[t]
        following = difference + DISCOUNT * GAE_LAMBDA * (1 - rollout.dones[t]) * following
        advantages[t] = following
    return advantages


def compute_loss(policy: Policy, rollout: Rollout, advantages: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return the loss of some steps, given by their numbers in the flattened rollout."""
    distribution, values = policy(rollout.observations.flatten(0, 1)[chosen])
    log_probabilities = distribution.log_prob(rollout.actions.flatten()[chosen])
    advantage = advantages.flatten()[chosen]
    returns = advantage + rollout.values.flatten()[chosen]
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = (log_probabilities - rollout.log_probabilities.flatten()[chosen]).exp()
    objective = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
    value_loss = (values - returns).square().mean()
    entropy = distribution.entropy().mean()
    loss: torch.Tensor = VALUE_COEFFICIENT * value_loss - objective - ENTROPY_COEFFICIENT * entropy
    return loss


def train(num_steps: int, seed: int, run_dir: str) -> float:
    """Train for about `num_steps` steps of all environments together and return the mean of the last 50 returns."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the network is too small for more
    options = {"autoreset_mode": AutoresetMode.SAME_STEP}
    envs = gymnasium.make_vec("CartPole-v1", NUM_ENVS, vectorization_mode="sync", vector_kwargs=options)
    observation_size, num_actions = flatdim(envs.single_observation_space), flatdim(envs.single_action_space)
    policy = Policy(observation_size, num_actions)
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE)
    rollout = Rollout(observation_size)
    returns, running = [0.0], np.zeros(NUM_ENVS)
    observation = torch.as_tensor(envs.reset(seed=seed)[0])
    num_iterations = max(1, num_steps // (NUM_ENVS * ROLLOUT))
    with profile_session(run_dir, "ppo") as timing:  # profiler
        for iteration in range(num_iterations):
            with timing.add_time("rollout"):  # profiler
                for t in range(ROLLOUT):
                    with timing.add_time("policy"), torch.inference_mode():  # profiler
                        distribution, values = policy(observation)
                        actions = distribution.sample()
                        log_probabilities = distribution.log_prob(actions)
                    with timing.add_time("env_step"):  # profiler
                        following, rewards, terminated, truncated, info = envs.step(actions.numpy())
                    dones = terminated | truncated
                    rollout.observations[t], rollout.actions[t] = observation, actions
                    rollout.log_probabilities[t], rollout.values[t] = log_probabilities, values
                    rollout.rewards[t], rollout.dones[t] = torch.as_tensor(rewards), torch.as_tensor(dones)
                    observation = torch.as_tensor(following)
                    # The value of what follows: known at the next step, unless the episode ends here.
                    if t > 0:
                        rollout.next_values[t - 1] += (1 - rollout.dones[t - 1]) * values
                    rollout.next_values[t] = 0.0
                    for i in np.flatnonzero(truncated & ~terminated):
                        with torch.inference_mode():
                            rollout.next_values[t, i] = policy(torch.as_tensor(info["final_obs"][i])[None])[1][0]
                    running += rewards
                    returns += running[dones].tolist()
                    running[dones] = 0.0
                with torch.inference_mode():
                    rollout.next_values[-1] += (1 - rollout.dones[-1]) * policy(observation)[1]
            with timing.add_time("train"):  # profiler
                advantages = estimate_advantages(rollout)
                optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - iteration / num_iterations)
                for _ in range(NUM_EPOCHS):
                    for chosen in torch.randperm(ROLLOUT * NUM_ENVS).chunk(NUM_MINIBATCHES):
                        with timing.add_time("gradient_step"):  # profiler
                            loss = compute_loss(policy, rollout, advantages, chosen)
                            optimizer.zero_grad()
                            loss.backward()  # type: ignore[no-untyped-call]
                            nn.utils.clip_grad_norm_(policy.parameters(), MAX_GRADIENT)
                            optimizer.step()
            set_gauge("return", float(np.mean(returns[-50:])))  # profiler
            if iteration % 10 == 0:
                logger.info("steps %d, return %.1f", (iteration + 1) * NUM_ENVS * ROLLOUT, np.mean(returns[-50:]))
    envs.close()
    return float(np.mean(returns[-50:]))


def main(argv: Sequence[str] | None = None) -> int:
    """Train as the command line says and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run_dir", default="runs/ppo_cartpole", help="where the session goes")
    parser.add_argument("--num_steps", type=int, default=100_000, help="steps of all environments together")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    mean_return = train(options.num_steps, options.seed, options.run_dir)
    logger.info("mean return of the last 50 episodes: %.1f", mean_return)
    return 0


if __name__ == "__main__":
    sys.exit(main())
