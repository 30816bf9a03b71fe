"""Where the time of training on the cluster tool goes: a PPO in one process, all of it in Timing blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sample_profiler.analysis.comparing.comparison import LEVEL, PairedComparison, compare_pairs, holm
from sample_profiler.ppo.advantages import gae
from sample_profiler.profiling import Timing
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sf_examples.petri_net.petri_net_env import PetriNetEnv

__all__ = ["COMPONENTS", "Profile", "ProfiledTraining", "compare_profiles", "format_profile"]

_NUM_FRAMES = 512
_NUM_EPOCHS = 4
_MINIBATCH = 128
_GAMMA, _LAMBDA, _CLIP = 0.995, 0.95, 0.2
_FORBIDDEN = -1e9

COMPONENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "data_collection": ("Data Collection", ("env_step", "policy_forward", "tensor_handling", "env_reset")),
    "gae": ("GAE Computation", ()),
    "replay_buffer": ("Replay Buffer Ops", ("extend", "sample")),
    "training": ("Training Loop", ("loss", "backward", "optimizer")),
}
"""By block: what a report calls it, and the blocks inside."""

_TITLES = {
    "env_step": "Env Step",
    "policy_forward": "Policy Forward",
    "tensor_handling": "Tensor Handling",
    "env_reset": "Env Reset",
    "extend": "Extend",
    "sample": "Sample",
    "loss": "Loss Computation",
    "backward": "Backward Pass",
    "optimizer": "Optimizer Step",
}
_BAR_WIDTH = 40


@dataclass(frozen=True)
class Profile:
    """Seconds of some batches.

    Attributes:
        total: of everything.
        seconds: by block, such as "training" and "training/loss".
        num_resets: episodes that began.
        num_steps: of the environment.
    """

    total: float
    seconds: dict[str, float]
    num_resets: int
    num_steps: int

    def __sub__(self, earlier: Profile) -> Profile:
        """Return what came after an earlier profile of the same training."""
        return Profile(
            self.total - earlier.total,
            {key: value - earlier.seconds.get(key, 0.0) for key, value in self.seconds.items()},
            self.num_resets - earlier.num_resets,
            self.num_steps - earlier.num_steps,
        )

    @staticmethod
    def sum(profiles: Sequence[Profile]) -> Profile:
        """Add up."""
        return Profile(
            sum(each.total for each in profiles),
            {key: sum(each.seconds.get(key, 0.0) for each in profiles) for each in profiles for key in each.seconds},
            sum(each.num_resets for each in profiles),
            sum(each.num_steps for each in profiles),
        )

    @property
    def rest(self) -> float:
        """Seconds in no component: what the loop itself takes."""
        return self.total - sum(self.seconds.get(key, 0.0) for key in COMPONENTS)


class _Policy(nn.Module):
    """Two hidden layers for actions and value."""

    def __init__(self, num_inputs: int, num_actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(num_inputs, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.actor, self.critic = nn.Linear(128, num_actions), nn.Linear(128, 1)

    def forward(self, observations: Tensor, masks: Tensor) -> tuple[torch.distributions.Categorical, Tensor]:
        hidden = self.body(observations)
        logits = self.actor(hidden).masked_fill(masks == 0, _FORBIDDEN)
        return torch.distributions.Categorical(logits=logits), self.critic(hidden).squeeze(-1)


class ProfiledTraining:
    """Trains a policy, batch by batch.

    Args:
        turbo: whether the net is simulated by the faster code.
        num_wafers: of the tool.
        seed: of weights, actions and minibatches.

    Attributes:
        timing: where the time went.
    """

    def __init__(self, *, turbo: bool, num_wafers: int = 5, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.timing = Timing(f"Training, turbo {'on' if turbo else 'off'}")
        self._env = PetriNetEnv(num_wafers, turbo=turbo)
        with self.timing.add_time("start"):
            self._observation, _ = self._env.reset(seed=seed)
        self._policy = _Policy(len(self._observation["obs"]), len(self._observation["action_mask"]))
        self._optimizer = torch.optim.Adam(self._policy.parameters(), lr=3e-4)
        self._random = torch.Generator().manual_seed(seed)
        self._num_resets = self._num_steps = 0
        self._buffer: dict[str, Tensor] = {}

    def run_batch(self) -> None:
        """Collect a batch and train on it."""
        timing = self.timing
        with timing.add_time("total"):
            with timing.add_time("data_collection"):
                batch = self._collect()
            with timing.add_time("gae"):
                self._add_advantages(batch)
            with timing.add_time("replay_buffer"), timing.add_time("extend"):
                self._buffer = {key: value.clone() for key, value in batch.items()}
            for _ in range(_NUM_EPOCHS):
                for _ in range(_NUM_FRAMES // _MINIBATCH):
                    with timing.add_time("replay_buffer"), timing.add_time("sample"):
                        chosen = torch.randint(_NUM_FRAMES, (_MINIBATCH,), generator=self._random)
                        minibatch = {key: value[chosen] for key, value in self._buffer.items()}
                    with timing.add_time("training"):
                        self._train_on(minibatch)

    def profile(self) -> Profile:
        """Return where the time has gone so far."""
        seconds: dict[str, float] = {}
        whole = self.timing.snapshot().children.get("total")
        if whole is None:
            return Profile(0.0, {}, self._num_resets, self._num_steps)
        stack = [(child, child.key) for child in whole.children.values()]
        while stack:
            block, path = stack.pop()
            seconds[path] = block.statistics.total_ns / NS_PER_S
            stack += [(child, f"{path}/{child.key}") for child in block.children.values()]
        return Profile(whole.statistics.total_ns / NS_PER_S, seconds, self._num_resets, self._num_steps)

    def _collect(self) -> dict[str, Tensor]:
        timing, observation = self.timing, self._observation
        rows: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]] = []
        rewards, ends, cuts = [], [], []
        for _ in range(_NUM_FRAMES):
            with timing.add_time("tensor_handling"):
                seen = torch.from_numpy(observation["obs"])
                mask = torch.from_numpy(observation["action_mask"])
            with timing.add_time("policy_forward"), torch.no_grad():
                distribution, value = self._policy(seen[None], mask[None])
                # From a generator of its own: trainings that take turns in one process do the same work.
                action = torch.multinomial(distribution.probs, 1, generator=self._random)[:, 0]
                log_probability = distribution.log_prob(action)
            with timing.add_time("env_step"):
                observation, reward, terminated, truncated, _ = self._env.step(int(action))
            with timing.add_time("tensor_handling"):
                rows.append((seen, mask, action[0], log_probability[0], value[0]))
                rewards.append(reward)
                ends.append(terminated)
                cuts.append(truncated)
            self._num_steps += 1
            if terminated or truncated:
                self._num_resets += 1
                with timing.add_time("env_reset"):
                    observation, _ = self._env.reset()
        self._observation = observation
        with timing.add_time("tensor_handling"):
            keys = ("obs", "masks", "actions", "log_probabilities", "values")
            batch = {key: torch.stack(list(column)) for key, column in zip(keys, zip(*rows, strict=True), strict=True)}
            batch["rewards"] = torch.tensor(rewards)
            batch["terminated"], batch["truncated"] = torch.tensor(ends), torch.tensor(cuts)
        return batch

    @torch.no_grad()
    def _add_advantages(self, batch: dict[str, Tensor]) -> None:
        last = {key: torch.from_numpy(value)[None] for key, value in self._observation.items()}
        _, value_behind = self._policy(last["obs"], last["action_mask"])
        values = torch.cat([batch["values"], value_behind])[None]
        ends = (batch["terminated"][None], batch["truncated"][None], None)
        advantages, returns = gae(batch["rewards"][None].float(), values, *ends, _GAMMA, _LAMBDA)
        batch["advantages"], batch["returns"] = advantages[0], returns[0]

    def _train_on(self, minibatch: Mapping[str, Tensor]) -> None:
        timing = self.timing
        with timing.add_time("loss"):
            distribution, values = self._policy(minibatch["obs"], minibatch["masks"])
            ratios = (distribution.log_prob(minibatch["actions"]) - minibatch["log_probabilities"]).exp()
            advantages = minibatch["advantages"]
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            clipped = ratios.clamp(1 - _CLIP, 1 + _CLIP)
            loss = -torch.min(ratios * advantages, clipped * advantages).mean()
            loss = loss + 0.5 * (values - minibatch["returns"]).square().mean() - 0.01 * distribution.entropy().mean()
        with timing.add_time("backward"):
            self._optimizer.zero_grad()
            torch.autograd.backward(loss)
        with timing.add_time("optimizer"):
            nn.utils.clip_grad_norm_(self._policy.parameters(), 0.5)
            self._optimizer.step()


def format_profile(profile: Profile, *, breakdown: bool) -> str:
    """Return components with seconds, share and bar, and what follows from the shares.

    Args:
        profile: of some batches.
        breakdown: whether data collection is split up, too.
    """
    lines = ["Component Breakdown:", "-" * 60]
    whole_s = [*(profile.seconds.get(key, 0.0) for key in COMPONENTS), profile.rest]
    tenths = _share_out(whole_s, 1000)
    for number, (key, (title, parts)) in enumerate(COMPONENTS.items(), 1):
        seconds, share = whole_s[number - 1], tenths[number - 1]
        lines.append(_line(f"{number}. {title}", seconds, share))
        shown = parts if breakdown or key != "data_collection" else ()
        inside_s = [profile.seconds.get(f"{key}/{part}", 0.0) for part in shown]
        if inside_s:
            inside_s.append(seconds - sum(inside_s))
            titles = [*(_TITLES[part] for part in shown), "in none of these"]
            rows = zip(titles, inside_s, _share_out(inside_s, share), strict=True)
            lines += [_line(f"   - {part_title}", part_s, part) for part_title, part_s, part in rows]
    lines.append(_line(f"{len(COMPONENTS) + 1}. In none of these", profile.rest, tenths[-1]))
    lines.append(_line("Total", profile.total, sum(tenths)))
    lines.append(f"{profile.num_steps:,} steps, {profile.num_resets:,} episodes")
    return "\n".join([*lines, "", "Recommendations:", *_recommend(profile)])


def _share_out(parts: Sequence[float], whole: int) -> list[int]:
    """Return parts in whole numbers that add up to `whole`: rounded down, and up where most was cut off."""
    total = sum(parts)
    if total <= 0:
        return [0] * len(parts)
    exact = [whole * part / total for part in parts]
    shares = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(parts)), key=lambda number: shares[number] - exact[number])
    for number in by_remainder[: whole - sum(shares)]:
        shares[number] += 1
    return shares


def _line(title: str, seconds: float, tenths: int) -> str:
    return f"{title:<28}{seconds:7.2f}s ({tenths / 10:5.1f}%)  {'█' * round(_BAR_WIDTH * tenths / 1000)}".rstrip()


def _recommend(profile: Profile) -> list[str]:
    parts = {
        "environment": ("data_collection/env_step", "data_collection/env_reset"),
        "policy forward pass": ("data_collection/policy_forward",),
        "loss, backward and optimizer": ("training",),
        "replay buffer": ("replay_buffer",),
    }
    seconds = {name: sum(profile.seconds.get(key, 0.0) for key in keys) for name, keys in parts.items()}
    percent = {name: round(100 * part_s / profile.total) if profile.total else 0 for name, part_s in seconds.items()}
    # Half of what is shown, rounded down: nobody is promised more than that.
    return [
        f"- {name} is {percent[name]} % of the time: a 2× faster one saves at most {percent[name] // 2} %"
        for name in sorted(seconds, key=lambda name: -seconds[name])
    ]


def compare_profiles(plain: Sequence[Profile], turbo: Sequence[Profile]) -> str:
    """Return what turbo changes, from batches that took turns.

    The rows of the table are tested together with the whole (`holm`): of several rows of noise one would often differ
    by chance.

    Args:
        plain: one profile for each batch without turbo.
        turbo: of the batches with it, in the same order.
    """
    rows = [(title, key) for key, (title, _) in COMPONENTS.items()]
    rows.insert(1, ("   - Env Step", "data_collection/env_step"))
    batches = list(zip(plain, turbo, strict=True))
    totals = [(off.total, on.total) for off, on in batches]
    parts = [[(off.seconds.get(key, 0.0), on.seconds.get(key, 0.0)) for off, on in batches] for _, key in rows]
    whole, *speedups = _speedups([totals, *parts])
    rule = "=" * 80
    lines = [rule, "Turbo Mode Comparison Report", rule, "", "Overall Performance:"]
    lines.append(f"  Baseline (turbo OFF): {sum(off for off, _ in totals):.2f}s")
    lines.append(f"  Turbo (turbo ON):     {sum(on for _, on in totals):.2f}s")
    lines.append(f"  Speedup:              {whole}")
    lines += ["", "Component-Level Comparison:"]
    lines += [f"{'Component':<28}{'Baseline':>11}{'Turbo':>11}  Speedup", "-" * 80]
    for (title, _), pairs, speedup in zip(rows, parts, speedups, strict=True):
        off_s, on_s = (sum(side) for side in zip(*pairs, strict=True))
        lines.append(f"{title:<28}{off_s:>10.2f}s{on_s:>10.2f}s  {speedup}")
    return "\n".join(lines)


def _speedups(quantities: Sequence[Sequence[tuple[float, float]]]) -> list[str]:
    """Say of each quantity how much less time the second of each pair takes, unless that is within the noise."""
    is_measured = [all(value > 0 for pair in pairs for value in pair) for pairs in quantities]
    measured = [pairs for pairs, is_there in zip(quantities, is_measured, strict=True) if is_there]
    corrected = holm([compare_pairs(pairs).p_value for pairs in measured])
    comparisons = (compare_pairs(pairs, p_value=p_value) for pairs, p_value in zip(measured, corrected, strict=True))
    said = (_describe(comparison, len(measured)) for comparison in comparisons)
    return [next(said) if is_there else "not measured" for is_there in is_measured]


def _describe(comparison: PairedComparison, num_tests: int) -> str:
    gain = f"{100 * (1 / comparison.ratio - 1):+.1f} %"
    if comparison.interval is None:
        return f"no measurable difference ({gain}; {comparison.num_pairs} of the 6 pairs that an interval takes)"
    high, low = (100 * (1 / ratio - 1) for ratio in comparison.interval)
    interval = f"95 % interval {low:+.1f} % to {high:+.1f} %, {comparison.num_pairs} pairs"
    # Not by the outcome: here no difference is too small to matter.
    if comparison.p_value < LEVEL:
        return f"{gain} ({interval})"
    return f"no measurable difference{'' if low <= 0 <= high else f' as one of {num_tests} rows'} ({interval})"
