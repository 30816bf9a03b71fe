"""Minibatches in pieces give the gradient of the whole, and the loss is the one that was asked for."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import sys
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_profiler.config import Config, parse_config
from sample_profiler.errors import TrainingError
from sample_profiler.model import ActorCritic, make_actor_critic
from sample_profiler.model.registry import ModelParts
from sample_profiler.ppo.optimizers import make_optimizer
from sample_profiler.ppo.ranks import Ranks
from sample_profiler.ppo.schedules import make_schedule
from sample_profiler.ppo.trainer import Trainer, TrainerOptions
from sample_profiler.ppo.training_data import MicroBatch, RecordedSteps, Targets
from sample_profiler.profiling import Timing

NUM_CHUNKS, LENGTH, NUM_ACTIONS = 6, 4, 3


def make_config(*flags: str) -> Config:
    small = ["--env=any", "--encoder_mlp_layers", "8", "--rnn_size=8", "--rollout=4", "--batch_size=24"]
    return parse_config([*small, *flags])


def make_trainer(config: Config, *, skips_bad_numbers: bool = False, parts: ModelParts | None = None) -> Trainer:
    torch.manual_seed(1)
    space = spaces.Dict({"obs": spaces.Box(-1, 1, (5,), np.float32)})
    model = make_actor_critic(config.model, config.observations, space, spaces.Discrete(NUM_ACTIONS), parts)
    return Trainer(
        model=model,
        optimizer=make_optimizer(model.parameters(), config.optimizer),
        schedule=make_schedule(config.optimizer, 1000),
        options=TrainerOptions(
            loss=config.loss,
            max_grad_norm=0.0,
            precision=config.run.precision,
            compiles=config.run.compile,
            skips_bad_numbers=skips_bad_numbers,
        ),
        device=torch.device("cpu"),
        timing=Timing("test"),
    )


@dataclasses.dataclass(frozen=True)
class Data:
    """Random steps, what they are trained towards, their observations `[C, R, 5]` and first states `[C, 8]`."""

    steps: RecordedSteps
    targets: Targets
    observations: torch.Tensor
    states: torch.Tensor


def make_data() -> Data:
    generator = torch.Generator().manual_seed(2)
    shape = (NUM_CHUNKS, LENGTH)
    parameters = torch.randn(*shape, NUM_ACTIONS, generator=generator)
    actions = torch.randint(NUM_ACTIONS, (*shape, 1), generator=generator)
    steps = RecordedSteps(
        starts_episode=torch.rand(shape, generator=generator) < 0.3,
        actions=actions,
        action_parameters=parameters,
        log_probabilities=parameters.log_softmax(-1).gather(-1, actions).squeeze(-1),
        values=torch.randn(shape, generator=generator),
    )
    targets = Targets(
        advantages=torch.randn(shape, generator=generator),
        returns=torch.randn(shape, generator=generator),
        valid=(torch.rand(shape, generator=generator) < 0.8).float(),
    )
    observations = torch.randn(*shape, 5, generator=generator)
    return Data(steps, targets, observations, torch.randn(NUM_CHUNKS, 8, generator=generator))


def cut(data: Data, sizes: list[int]) -> list[tuple[MicroBatch, Targets]]:
    """Cut a minibatch into micro-batches of so many chunks, whose observations come one chunk at a time."""
    targets = data.targets.normalized(data.targets.moments())
    batches, start = [], 0
    for size in sizes:
        chunks = np.arange(start, start + size)
        pieces = iter([{"obs": data.observations[chunk]} for chunk in chunks])
        batches.append((MicroBatch(pieces, data.states[chunks], data.steps.of(chunks)), targets.of(chunks)))
        start += size
    return batches


def gradient(model: ActorCritic) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


@pytest.mark.parametrize("sizes", [[1] * 6, [2, 4], [5, 1]])
@pytest.mark.parametrize("flags", [(), ("--kl_loss_coeff=0.3", "--exploration_loss=symmetric_kl")])
def test_pieces_add_up_to_the_gradient_of_the_minibatch(sizes: list[int], flags: tuple[str, ...]) -> None:
    data = make_data()
    num_valid = float(data.targets.moments()[0])
    gradients = []
    for pieces in ([NUM_CHUNKS], sizes):
        trainer = make_trainer(make_config(*flags))
        trainer.train_minibatch(cut(data, pieces), num_valid)
        gradients.append(gradient(trainer.model))
    assert gradients[0].abs().max() > 1e-3
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)


def test_gradient_is_that_of_the_loss_written_out() -> None:
    config = make_config("--ppo_clip_ratio=0.2", "--exploration_loss_coeff=0.01", "--value_loss_coeff=0.7")
    trainer = make_trainer(config)
    model = copy.deepcopy(trainer.model)
    data = make_data()
    num_valid = float(data.targets.moments()[0])
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), num_valid)

    steps, targets, state, logits, values = (
        data.steps,
        data.targets.normalized(data.targets.moments()),
        data.states,
        [],
        [],
    )
    # Step by step through the network, and the formulas of the PPO paper with the lower bound 1 / (1 + e).
    for step in range(LENGTH):
        state = state * (~steps.starts_episode[:, step])[:, None]
        head = model.forward_head(model.normalize({"obs": data.observations[:, step]}))
        core, state = model.forward_core(head, state)
        parameters, value = model.forward_tail(core)
        logits.append(parameters)
        values.append(value)
    log_p = torch.stack(logits, 1).log_softmax(-1)
    value = torch.stack(values, 1)
    taken = log_p.gather(-1, steps.actions).squeeze(-1)
    ratio = (taken - steps.log_probabilities).exp().clamp(0.05, 20)
    surrogate = torch.minimum(ratio * targets.advantages, ratio.clamp(1 / 1.2, 1.2) * targets.advantages)
    clipped = steps.values + (value - steps.values).clamp(-1, 1)
    value_error = torch.maximum((value - targets.returns) ** 2, (clipped - targets.returns) ** 2)
    entropy = -(log_p.exp() * log_p).sum(-1)
    loss = ((-surrogate + 0.7 * value_error - 0.01 * entropy) * targets.valid).sum() / num_valid
    loss.backward()
    torch.testing.assert_close(gradient(trainer.model), gradient(model), rtol=1e-4, atol=1e-6)


def test_clipping_limits_the_norm_of_all_gradients_together() -> None:
    trainer = make_trainer(make_config())
    trainer._max_grad_norm = 0.01
    data = make_data()
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), float(data.targets.moments()[0]))
    assert float(gradient(trainer.model).norm()) == pytest.approx(0.01, rel=1e-3)
    assert trainer.statistics()["train/grad_norm"] > 0.01


def test_training_does_without_the_libraries_of_torchs_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it is an error; it took part of a second of each start
    data, trainer = make_data(), make_trainer(make_config())

    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), float(data.targets.moments()[0]))

    assert trainer.num_steps == 1


def test_state_dict_continues_where_it_was_taken() -> None:
    data = make_data()
    num_valid = float(data.targets.moments()[0])
    trainer = make_trainer(make_config())
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), num_valid)
    other = make_trainer(make_config())
    other.load_state_dict(copy.deepcopy(trainer.state_dict()))
    for each in (trainer, other):
        each.train_minibatch(cut(data, [NUM_CHUNKS]), num_valid)
    assert other.num_steps == trainer.num_steps == 2
    for mine, theirs in zip(trainer.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_normalized_advantages_have_zero_mean_and_unit_deviation_over_valid_steps() -> None:
    data = make_data()
    normalized = data.targets.normalized(data.targets.moments()).advantages[data.targets.valid > 0]
    assert float(normalized.mean()) == pytest.approx(0, abs=1e-6)
    assert float(normalized.std()) == pytest.approx(1, abs=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile warns of parts of torch itself
@pytest.mark.parametrize(("flag", "tolerance"), [("--precision=bf16", 0.03), ("--compile=True", 1e-5)])
def test_options_for_speed_take_the_same_step_within_their_rounding(
    flag: str, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.suppress(ImportError):  # its thread would outlive the test
        monkeypatch.setattr(importlib.import_module("tqdm").tqdm, "monitor_interval", 0)
    data = make_data()
    num_valid = float(data.targets.moments()[0])
    gradients = []
    for flags in ((), (flag,)):
        trainer = make_trainer(make_config(*flags))
        trainer.train_minibatch(cut(data, [4, 2]), num_valid)
        gradients.append(gradient(trainer.model))
        assert all(parameter.dtype == torch.float32 for parameter in trainer.model.parameters())
    difference = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert difference < tolerance


def spoiled(data: Data) -> Data:
    returns = torch.full_like(data.targets.returns, torch.inf)
    return dataclasses.replace(data, targets=dataclasses.replace(data.targets, returns=returns))


def test_a_step_whose_gradients_are_not_finite_is_left_out(caplog):
    trainer = make_trainer(make_config(), skips_bad_numbers=True)
    data = make_data()
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train_minibatch(cut(spoiled(data), [NUM_CHUNKS]), 20.0)
    assert trainer.num_steps == 0
    torch.testing.assert_close(trainer.model.state_dict(), before, rtol=0, atol=0)
    assert "gradients of optimizer step 1 are not finite" in caplog.text
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), 20.0)
    assert trainer.num_steps == 1
    assert all(bool(tensor.isfinite().all()) for tensor in trainer.model.state_dict().values())


def test_ten_bad_steps_in_a_row_are_an_error_and_others_between_them_begin_anew():
    trainer = make_trainer(make_config(), skips_bad_numbers=True)
    data = make_data()
    for _ in range(2):
        for _ in range(9):
            trainer.steps.reject("something")
        trainer.train_minibatch(cut(data, [NUM_CHUNKS]), 20.0)
    for _ in range(9):
        trainer.train_minibatch(cut(spoiled(data), [NUM_CHUNKS]), 20.0)
    with pytest.raises(TrainingError, match="10th time in a row"):
        trainer.train_minibatch(cut(spoiled(data), [NUM_CHUNKS]), 20.0)


def test_a_log_of_days_tells_of_the_1st_10th_and_100th_step_that_is_left_out(caplog):
    trainer = make_trainer(make_config(), skips_bad_numbers=True)
    for number in range(1, 251):
        trainer.steps.reject(f"step {number}")
        trainer.steps._num_rejected = 0  # a good one comes between
    assert [record.getMessage() for record in caplog.records] == [
        f"step {number}: they are left out of training (number {number})" for number in (1, 10, 100)
    ]


def test_bad_numbers_are_an_error_at_once_if_that_is_wanted():
    trainer = make_trainer(make_config())
    data = make_data()
    with pytest.raises(TrainingError, match="last checkpoint is sound"):
        trainer.train_minibatch(cut(spoiled(data), [NUM_CHUNKS]), 20.0)


def test_it_is_suspect_from_a_step_that_is_left_out_to_one_that_is_not():
    trainer = make_trainer(make_config(), skips_bad_numbers=True)
    data = make_data()
    assert not trainer.steps.is_suspect
    trainer.train_minibatch(cut(spoiled(data), [NUM_CHUNKS]), 20.0)
    assert trainer.steps.is_suspect
    trainer.steps.reject("what it was given", may_be_weights=False)
    assert trainer.steps.is_suspect, "it still is"
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), 20.0)
    assert not trainer.steps.is_suspect
    trainer.steps.reject("what it was given", may_be_weights=False)
    assert not trainer.steps.is_suspect


def test_the_error_after_a_resume_says_that_it_may_be_the_checkpoint():
    first, resumed = make_trainer(make_config()), make_trainer(make_config())
    data = make_data()
    first.train_minibatch(cut(data, [NUM_CHUNKS]), 20.0)
    resumed.load_state_dict(first.state_dict())
    with pytest.raises(TrainingError, match="The last checkpoint is sound"):
        resumed.steps.reject("observations", may_be_weights=False)
    with pytest.raises(TrainingError, match=r"checkpoint of optimizer step 1 was loaded.*remove its file"):
        resumed.steps.reject("something")
    resumed.train_minibatch(cut(data, [NUM_CHUNKS]), 20.0)
    with pytest.raises(TrainingError, match="The last checkpoint is sound"):
        resumed.steps.reject("something")


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), 1e30])
def test_a_network_is_tried_out_without_changing_it(weight):
    trainer = make_trainer(make_config())
    data = make_data()
    observations, states = {"obs": data.observations[:, 0]}, data.states
    generator = torch.get_rng_state()
    assert trainer.passes.makes_usable_numbers(observations, states)
    assert torch.equal(torch.get_rng_state(), generator)
    assert trainer.model.training
    with torch.no_grad():
        trainer.model.value_head.bias.fill_(weight)
    assert not trainer.passes.makes_usable_numbers(observations, states)


def test_figures_of_the_network_are_charted_and_hide_none_of_the_learners(monkeypatch: pytest.MonkeyPatch) -> None:
    data, trainer = make_data(), make_trainer(make_config())
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), float(data.targets.moments()[0]))
    usual = trainer.statistics()
    monkeypatch.setattr(trainer.model, "summaries", lambda: {"mine": 2.0, "grad_norm": -1.0, "value": -1.0})
    assert trainer.statistics() == usual | {"train/mine": 2.0}


@pytest.mark.parametrize("flags", [(), ("--exploration_loss_coeff=0", "--kl_loss_coeff=0.3")])
def test_a_step_is_the_same_whether_it_is_in_the_statistics_or_not(flags: tuple[str, ...]) -> None:
    data = make_data()
    trainers = [make_trainer(make_config(*flags)) for _ in range(2)]
    for trainer in trainers:
        trainer.train_minibatch(cut(data, [NUM_CHUNKS]), float(data.targets.moments()[0]))
    kept, later = (trainer.statistics() for trainer in trainers)
    assert kept == later and {"train/exploration_loss", "train/kl_divergence", "train/value"} <= set(kept)
    trainers[1].keeps_statistics = False
    for trainer in trainers:
        trainer.train_minibatch(cut(data, [2, 4]), float(data.targets.moments()[0]))
    weights = [trainer.model.state_dict() for trainer in trainers]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    now, left = (trainer.statistics() for trainer in trainers)
    assert {name for name in now if now[name] != left[name]} >= {"train/kl_divergence", "train/value_loss"}
    assert {name for name in left if left[name] != kept[name]} == {"train/grad_norm"}


@pytest.mark.parametrize("pieces", ["whole", "chunk by chunk"])
@pytest.mark.parametrize("shares", ["True", "False"])
def test_a_small_network_without_memory_learns_the_same_at_once_and_part_by_part(pieces, shares, monkeypatch) -> None:
    data, weights, calls = make_data(), [], []
    for goes_at_once in (True, False):
        trainer = make_trainer(make_config("--use_rnn=False", f"--actor_critic_share_weights={shares}"))
        usual = trainer.model.forward_at_once
        monkeypatch.setattr(
            trainer.model, "forward_at_once", lambda seen, usual=usual: calls.append(1) or usual(seen)
        ) if goes_at_once else monkeypatch.setattr(trainer.model, "forward_at_once", lambda _: None)
        ((batch, targets),) = cut(data, [NUM_CHUNKS])
        if pieces == "whole":
            seen = torch.cat([each["obs"] for each in batch.observations])
            batch = dataclasses.replace(batch, observations=iter([{"obs": seen}]))
        else:
            ((batch, _),) = cut(data, [NUM_CHUNKS])
        batch = dataclasses.replace(batch, states=torch.zeros(NUM_CHUNKS, trainer.model.state_size))
        trainer.train_minibatch([(batch, targets)], float(data.targets.moments()[0]))
        weights.append(trainer.model.state_dict())
    assert len(calls) == (pieces == "whole")
    for name in weights[0]:
        torch.testing.assert_close(weights[0][name], weights[1][name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_a_pass_that_is_timed_changes_nothing(precision) -> None:
    data, trainer = make_data(), make_trainer(make_config("--precision=bf16"))
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), float(data.targets.moments()[0]))
    before, statistics = copy.deepcopy(trainer.state_dict()), trainer.statistics()
    ((batch, targets),) = cut(data, [NUM_CHUNKS])
    assert trainer.time_pass(precision, batch, targets) > 0
    assert (trainer.passes.precision, trainer.model.training, trainer.statistics()) == ("bf16", True, statistics)
    assert not any(parameter.grad.any() for parameter in trainer.model.parameters())
    after = trainer.state_dict()
    assert all(torch.equal(after["model"][name], tensor) for name, tensor in before["model"].items())
    assert after["optimizer_steps"] == before["optimizer_steps"] == 1


class Flat(nn.Module):
    """An encoder of the user's own that has nothing to learn."""

    output_size = 5

    def forward(self, observations):
        return observations["obs"].flatten(1)


@pytest.mark.parametrize("parts", [ModelParts(), ModelParts(encoder=lambda _: Flat())], ids=["no layers", "registered"])
def test_a_network_whose_encoder_has_no_parameters_is_trained(parts: ModelParts) -> None:
    trainer = make_trainer(make_config("--encoder_mlp_layers"), parts=parts)
    before = copy.deepcopy(list(trainer.model.parameters()))
    data = make_data()
    trainer.train_minibatch(cut(data, [4, 2]), 20.0)
    assert trainer.num_steps == 1
    assert not any(map(torch.equal, before, trainer.model.parameters())), "core and heads learn"


def test_a_device_is_asked_for_several_steps_at_once_and_comes_to_the_same() -> None:
    """Of three steps the gradient of the second is not finite; on a processor each is looked at when it is taken."""
    trainers = [make_trainer(make_config(), skips_bad_numbers=True) for _ in range(2)]
    trainers[1].steps._looks_at_once = False
    for number in range(3):
        data = make_data()
        if number == 1:
            data.observations[0, 0, 0] = float("nan")
        for trainer in trainers:
            trainer.train_minibatch(cut(data, [NUM_CHUNKS]), float(data.targets.moments()[0]))
    assert [trainer.num_steps for trainer in trainers] == [2, 0], "it has not been asked yet"
    assert trainers[1].steps.settle(torch.tensor(7.0)) == 7
    assert trainers[1].steps.settle() == 0
    assert trainers[1].num_steps == 2
    assert not trainers[1].steps.is_suspect
    for one, other in zip(*(trainer.model.parameters() for trainer in trainers), strict=True):
        assert torch.equal(one, other)


def test_a_device_that_has_seen_bad_gradients_ends_the_run_when_it_is_asked() -> None:
    trainer, data = make_trainer(make_config()), make_data()
    trainer.steps._looks_at_once = False
    data.observations[0, 0, 0] = float("nan")
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), float(data.targets.moments()[0]))
    with pytest.raises(TrainingError, match="the gradients of optimizer step 1 are not finite"):
        trainer.steps.settle()


class WithSpare(Flat):
    """One with a layer that no loss depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(2, 2)


@pytest.mark.parametrize("size", [1, 2])
def test_ranks_clip_in_one_way_whether_or_not_they_use_all_layers(size: int) -> None:
    trainer, data = make_trainer(make_config(), parts=ModelParts(encoder=lambda _: WithSpare())), make_data()
    trainer.ranks = cast("Ranks", SimpleNamespace(size=size, add_up=lambda _: None))
    trainer.train_minibatch(cut(data, [NUM_CHUNKS]), float(data.targets.moments()[0]))
    spare = trainer.model.get_submodule("trunks.0.encoder.spare")
    # Another rank may have used it: each takes the norm of the same memory, in the same order.
    assert trainer._optimizer._are_in_memory()
    assert [parameter.grad is None for parameter in spare.parameters()] == [size == 1] * 2
