"""Why a policy may not learn: causes, what shows each of them, and the flag that cures it.

Each rule is of something that is wrong in itself, whether the return rises or not: a policy may learn in spite of it,
and one that learns nothing may have a task that is too hard.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sample_profiler.analysis.learning.facts import RETURN_DEVIATION, RETURNS, LearningFacts, learning_facts
from sample_profiler.profiling.session.session import Session
from sample_profiler.vocabulary import (
    BAD_STEPS,
    CLIP_SHARE,
    DEAD_INPUTS,
    ENTROPY,
    ENTROPY_SHARE,
    EXPLAINED_VARIANCE,
    GRAD_NORM,
    INPUT_SCALE,
    LAG_MEAN,
    NUM_DISTINCT_STARTS,
    NUM_STARTS,
    REWARD_CLIPPED,
    REWARD_LEFT,
    REWARD_NONZERO,
    UNCHANGED_OBSERVATIONS,
    UPDATE_KL,
)

__all__ = ["LearningCause", "LearningProblem", "judge_learning"]

LearningCause = Literal[
    "bad numbers",
    "clipped rewards",
    "no rewards",
    "equal returns",
    "large inputs",
    "dead inputs",
    "unchanged observations",
    "equal seeds",
    "stale data",
    "learning rate",
    "too much exploration",
    "short horizon",
]
"""What keeps a policy from learning."""

_CLIPPED, _LEFT = 0.5, 0.1  # of the rewards that are not 0; of their sum
_SIGN = 1.0  # a bound from which on what is left of a reward is at least its sign, as is usual for games
_LARGE_INPUT = 30.0  # inputs that are normalized are about 1
_DEAD = 0.9  # of the inputs: a few that never change are padding
_UNCHANGED = 0.5  # of the steps
_FEWEST_STARTS, _FEWEST_DISTINCT, _REPEATED, _STILL_NEW = 40, 8, 1.8, 0.7
_FEWEST_RETURNS = 8  # one second apart, or more
_STALE_DATASETS, _STALE_STEPS = 5.0, 15.0
_FAR, _MUCH_CLIPPED = 0.08, 0.35  # KL divergence of a policy from the one that acted; share of clipped ratios
_RANDOM, _STRONG_BONUS = 0.7, 0.03  # of the largest entropy; ten times what the flag is by default
_GROWN = 0.5  # of an entropy of continuous actions, since the beginning
_COLLAPSED = 0.02  # of the largest entropy
_HARDLY, _SMALL_RATE = 1e-5, 3e-6  # KL divergence of a policy that stays where it is; a learning rate below any usual
_TINY = 1e-6
_SHORT, _LONG = 10.0, 5.0  # steps that rewards count for; an episode in such horizons


@dataclass(frozen=True)
class LearningProblem:
    """Something that keeps a policy from learning, or makes it learn something else.

    Attributes:
        policy: number of the policy.
        cause: in one term.
        headline: in one sentence.
        evidence: what shows it, one sentence each.
        advice: the flag that cures it, or what does.
    """

    policy: int
    cause: LearningCause
    headline: str
    evidence: tuple[str, ...]
    advice: str


def judge_learning(session: Session) -> list[LearningProblem]:
    """Return what keeps the policies of a run from learning, by policy, causes before their consequences."""
    problems = []
    for facts in learning_facts(session):
        found = [problem for rule in _RULES if (problem := rule(facts)) is not None]
        # What is wrong with the data makes steps of the optimizer go wrong, too.
        causes = {problem.cause for problem in found}
        hidden = {"learning rate"} if causes & _MAKE_STEPS_LARGE else set()
        problems += [problem for problem in found if problem.cause not in hidden]
    return problems


def _bad_numbers(facts: LearningFacts) -> LearningProblem | None:
    share = facts.largest(BAD_STEPS)
    if not share:
        return None
    evidence = (
        f"{100 * share:.2g} % of the steps have such numbers: they count as 0, and the steps are not trained on",
    )
    headline = "Rewards or observations are not finite now and then (NaN, infinity)"
    advice = "find out where the environment divides by 0 or overflows: sample-profiler doctor; --on_bad_numbers=stop"
    return LearningProblem(facts.policy, "bad numbers", headline, evidence, advice)


def _clipped_rewards(facts: LearningFacts) -> LearningProblem | None:
    clipped, left = facts.late(REWARD_CLIPPED), facts.late(REWARD_LEFT)
    if clipped is None or left is None or clipped < _CLIPPED or left > _LEFT:
        return None
    bound = facts.flag("reward_clip", 0.0)
    if bound >= _SIGN:
        return None
    evidence = (
        f"--reward_clip={bound:g} changes {clipped:.0%} of the rewards that are not 0",
        f"it leaves {left:.1%} of their sum",
    )
    headline = "Rewards are cut off: hardly anything of them reaches the training"
    advice = "a larger --reward_clip (1000 by default), or a smaller --reward_scale with it"
    return LearningProblem(facts.policy, "clipped rewards", headline, evidence, advice)


def _no_rewards(facts: LearningFacts) -> LearningProblem | None:
    nonzero = facts.largest(REWARD_NONZERO, 0.0)
    returns = facts.figures.get("episode_return", ())
    # Datasets are looked at now and then: a reward that comes rarely shows in the returns.
    if nonzero is None or nonzero > 0 or not returns or any(returns):
        return None
    evidence = ("every reward of the datasets that were looked at is 0, and so is the return of all episodes",)
    headline = "There was no reward: nothing tells one action from another"
    advice = "rewards on the way, an easier beginning, or a longer run that explores more (--exploration_loss_coeff)"
    return LearningProblem(facts.policy, "no rewards", headline, evidence, advice)


def _equal_returns(facts: LearningFacts) -> LearningProblem | None:
    returns, share = facts.figures.get(RETURNS, ()), facts.late(ENTROPY_SHARE)
    if len(returns) < _FEWEST_RETURNS or share is None or share < _RANDOM:  # one that has learned may always win
        return None
    if not facts.largest(REWARD_NONZERO, 0.0) or max(returns) - min(returns) > _TINY * max(map(abs, returns)):
        return None
    # Means are equal, too, where what one agent gains another one loses.
    if max(facts.figures.get(RETURN_DEVIATION, (math.inf,))) > _TINY * max(map(abs, returns)):
        return None
    evidence = (
        f"the return of all episodes has been {returns[-1]:g} from the beginning on",
        f"the policy has {share:.0%} of the largest entropy: it has tried all actions",
    )
    headline = "All episodes give the same return: nothing tells one action from another"
    advice = (
        "rewards that depend on what is done, or that come on the way to what random actions never reach; "
        "sample-profiler doctor tells whether the environment heeds actions"
    )
    return LearningProblem(facts.policy, "equal returns", headline, evidence, advice)


def _large_inputs(facts: LearningFacts) -> LearningProblem | None:
    scale = facts.late(INPUT_SCALE)
    if scale is None or scale < _LARGE_INPUT:
        return None
    evidence = [f"the largest input of the network is {scale:,.0f} (root mean square); what it learns from best is 1"]
    evidence += _gradient(facts)
    headline = "Inputs of the network are far too large, and drown the others"
    advice = "--normalize_input=True, which shifts and scales each of them (--normalize_input_keys: only some)"
    if facts.config.get("normalize_input") is True:
        advice = "what the environment returns: --normalize_input is on, so a few values are far beyond the others"
    return LearningProblem(facts.policy, "large inputs", headline, tuple(evidence), advice)


def _dead_inputs(facts: LearningFacts) -> LearningProblem | None:
    dead = facts.late(DEAD_INPUTS)
    if dead is None or dead < _DEAD:
        return None
    evidence = (f"{dead:.0%} of the inputs of the network are the same in all steps that were looked at",)
    headline = "Observations say hardly anything: their numbers never change"
    return LearningProblem(facts.policy, "dead inputs", headline, evidence, "look at what the environment observes")


def _unchanged(facts: LearningFacts) -> LearningProblem | None:
    unchanged, dead = facts.late(UNCHANGED_OBSERVATIONS), facts.late(DEAD_INPUTS)
    if unchanged is None or unchanged < _UNCHANGED or (dead or 0.0) >= _DEAD:
        return None
    evidence = (f"{unchanged:.0%} of the observations within an episode are the one before, to the last bit",)
    headline = "Most steps do not show in the observations: different moments look the same"
    advice = (
        "look for an environment that returns an old array or one that it shares; where a part of the state is not "
        "seen, --use_rnn=True or stacked frames"
    )
    return LearningProblem(facts.policy, "unchanged observations", headline, evidence, advice)


def _equal_seeds(facts: LearningFacts) -> LearningProblem | None:
    starts, distinct = facts.figures.get(NUM_STARTS, ()), facts.figures.get(NUM_DISTINCT_STARTS, ())
    if len(starts) < 4 or len(distinct) != len(starts):
        return None
    number, differ, half = starts[-1], distinct[-1], distinct[len(distinct) // 2]
    if number < _FEWEST_STARTS or differ < _FEWEST_DISTINCT or number < _REPEATED * differ:
        return None
    # Where there are only so many beginnings, fewer and fewer are new; of copies, as large a part as ever.
    half_number = starts[len(starts) // 2]
    late, early = number - half_number, half / max(1.0, half_number)
    if half_number < number and (differ - half) / late < _STILL_NEW * early:
        return None
    evidence = (
        f"of {number:,.0f} first observations of episodes only {differ:,.0f} differ, and new ones go on to come: each "
        f"comes {number / differ:.1f} times",
    )
    headline = "Environments are copies of each other: they begin the same episodes"
    advice = "seed each environment by what `reset(seed=…)` gives it, or by env_config.env_id; not by a constant"
    return LearningProblem(facts.policy, "equal seeds", headline, evidence, advice)


def _stale_data(facts: LearningFacts) -> LearningProblem | None:
    lag = facts.late(LAG_MEAN)
    if lag is None or lag < max(_STALE_STEPS, _STALE_DATASETS * facts.steps_per_dataset):
        return None
    evidence = [
        f"samples are {lag:.0f} optimizer steps old when they are trained on, {lag / facts.steps_per_dataset:.0f} "
        "datasets",
        *_moves(facts),
    ]
    headline = "Samples are old: another policy has acted than the one that learns"
    advice = (
        "fewer environments in flight (--num_workers, --num_envs_per_worker), a larger --batch_size, a smaller "
        "--num_batches_to_accumulate or --max_policy_lag; --with_vtrace=True corrects for some of it"
    )
    return LearningProblem(facts.policy, "stale data", headline, tuple(evidence), advice)


def _learning_rate(facts: LearningFacts) -> LearningProblem | None:
    far, clipped = facts.largest(UPDATE_KL), facts.largest(CLIP_SHARE)
    if far is None or clipped is None or far < _FAR or clipped < _MUCH_CLIPPED:
        return None
    evidence = [*_moves(facts), *_gradient(facts)]
    share = facts.late(ENTROPY_SHARE)
    if share is not None and share < _COLLAPSED:
        evidence.append(f"the policy has {share:.1%} of the largest entropy: it always does the same")
    rate = facts.flag("learning_rate", 0.0)
    headline = "The policy changes too much in each training step"
    advice = f"a smaller --learning_rate ({rate:g} now; a tenth of it), or --lr_schedule=kl_adaptive_epoch"
    if (epochs := facts.flag("num_epochs", 1)) > 1:
        advice += f"; or fewer --num_epochs ({epochs:g} now)"
    return LearningProblem(facts.policy, "learning rate", headline, tuple(evidence), advice)


def _small_learning_rate(facts: LearningFacts) -> LearningProblem | None:
    far, rate = facts.largest(UPDATE_KL), facts.flag("learning_rate", 1.0)
    if far is None or far > _HARDLY or rate > _SMALL_RATE:
        return None
    headline = "The policy hardly changes in each training step"
    return LearningProblem(
        facts.policy, "learning rate", headline, tuple(_moves(facts)), f"a larger --learning_rate ({rate:g} now)"
    )


def _entropy(facts: LearningFacts) -> LearningProblem | None:
    bonus, share = facts.flag("exploration_loss_coeff", 0.0), facts.late(ENTROPY_SHARE)
    early, late = facts.early(ENTROPY), facts.late(ENTROPY)
    if bonus < _STRONG_BONUS or early is None or late is None:
        return None
    is_random = late >= early + _GROWN if share is None else share >= _RANDOM
    if not is_random:
        return None
    told = f"{share:.0%} of the largest entropy" if share is not None else f"an entropy of {late:.1f} after {early:.1f}"
    evidence = (
        f"the policy has {told}: it acts nearly at random",
        f"--exploration_loss_coeff={bonus:g}; 0.003 by default",
    )
    headline = "Exploring is rewarded so much that the policy stays random"
    return LearningProblem(
        facts.policy, "too much exploration", headline, evidence, "a smaller --exploration_loss_coeff, such as 0.003"
    )


def _short_horizon(facts: LearningFacts) -> LearningProblem | None:
    gamma, steps = facts.flag("gamma", 0.99), facts.episode_steps
    horizon = 1 / max(1e-9, 1 - gamma)
    if steps is None or horizon > _SHORT + _TINY or steps < _LONG * horizon:
        return None
    evidence = (
        f"with --gamma={gamma:g} a reward counts for the {horizon:.1f} steps before it",
        f"episodes last {steps:,.0f} steps",
    )
    headline = "The policy does not look ahead as far as its episodes go"
    return LearningProblem(facts.policy, "short horizon", headline, evidence, "a larger --gamma, such as 0.99")


def _moves(facts: LearningFacts) -> list[str]:
    far, clipped = facts.largest(UPDATE_KL), facts.largest(CLIP_SHARE)
    if far is None or clipped is None:
        return []
    return [
        f"the policy that has learned is {far:.2g} nats (KL divergence) from the one that acted; 0.01 is usual",
        f"{clipped:.0%} of the steps are beyond the bounds of the loss, which learns nothing more from them",
    ]


def _gradient(facts: LearningFacts) -> list[str]:
    norm, explained = facts.late(GRAD_NORM), facts.late(EXPLAINED_VARIANCE)
    found = []
    if norm is not None and norm > 10 * (limit := facts.flag("max_grad_norm", 0.0)) > 0:
        found.append(f"gradients have a norm of {norm:,.3g}, and are cut to {limit:g}")
    if explained is not None and explained < _DEAD - 1:
        found.append("values explain none of the variance of the returns")
    return found


_MAKE_STEPS_LARGE = frozenset({"large inputs", "stale data"})
_RULES: tuple[Callable[[LearningFacts], LearningProblem | None], ...] = (
    *(_bad_numbers, _clipped_rewards, _no_rewards, _equal_returns, _dead_inputs, _unchanged, _large_inputs),
    *(_equal_seeds, _stale_data, _learning_rate, _small_learning_rate, _entropy, _short_horizon),
)
