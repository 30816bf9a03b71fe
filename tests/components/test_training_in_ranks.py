"""Learners of several ranks take the steps that one Learner would take on what all of them have sampled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from sample_profiler.components.messages import RankEnded, TargetReached
from sample_profiler.errors import RankError, SampleProfilerError
from sample_profiler.runtime.machine.ranks import RankState
from tests.doubles.small_runs import LearnerRun
from tests.ppo.ranks_in_threads import places

FLAGS = ("--num_batches_per_epoch=2", "--num_epochs=2", "--learning_rate=0.01", "--max_grad_norm=0.1")


@pytest.fixture(autouse=True)
def _over_loopback(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


@pytest.fixture
def make_ranks(make_blueprint, make_component, tmp_path):
    """Make the Learners of some ranks, at the same time: each waits for the others."""

    def make(*flags, size=2, timeout_s=30.0):
        blueprints = [
            replace(make_blueprint(*flags, f"--rank_timeout={timeout_s}", seed=5 + place.rank,
                                   folder=tmp_path / f"rank{place.rank}"), place=place)
            for place in places(size)
        ]  # fmt: skip
        runs = together(lambda blueprint: LearnerRun(blueprint, *make_component(blueprint, "Learner_0")), blueprints)
        return [run.start() for run in runs]

    return make


def together(function, arguments):
    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(function, arguments))


def begin_as(source, target, slots):
    """Let a run have the weights of another one, and in its first slots what that has in these."""
    # Networks that are made at the same time draw from the same generator.
    target.learner._trainer.model.load_state_dict(source.weights())
    mine, theirs = target.memory, source.memory
    for key, observations in theirs.observations.items():
        mine.observations[key][: len(slots)] = observations[slots]
    for name in ("rewards", "actions", "action_parameters", "log_probabilities", "values", "states", "terminated",
                 "truncated", "final_values", "policy_versions", "inactive"):  # fmt: skip
        getattr(mine, name)[: len(slots)] = getattr(theirs, name)[slots]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("flags", [(), ("--use_rnn=True", "--recurrence=4"), ("--with_vtrace=True", "--recurrence=4")])
def test_one_steps_gradients_are_those_of_a_single_process_on_all_that_was_sampled(
    make_learner, make_ranks, flags, size, tmp_path
):
    flags = ("--num_batches_per_epoch=1", "--num_epochs=1", "--max_grad_norm=1000", *flags)
    alone = make_learner(*flags, "--batch_size=32", folder=tmp_path / "alone", seed=5).start()
    alone.memory.values[:] = np.random.default_rng(7).normal(size=alone.memory.values.shape)
    alone.memory.inactive[5, 1] = True  # ranks have other numbers of steps that count
    ranks = make_ranks(*flags, f"--batch_size={32 // size}", size=size)
    num_slots = 8 // size
    for rank, run in enumerate(ranks):
        begin_as(alone, run, list(range(rank * num_slots, (rank + 1) * num_slots)))
    alone.hand_over(*range(8))
    together(lambda run: run.hand_over(*range(num_slots)), ranks)
    for run in ranks:
        assert run.learner._trainer.num_steps == alone.learner._trainer.num_steps == 1
        compare_gradients(run.learner._trainer.model, alone.learner._trainer.model, rtol=0)


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--use_rnn=True", "--recurrence=4"),
        ("--with_vtrace=True", "--recurrence=4"),
        ("--lr_schedule=kl_adaptive_minibatch", "--normalize_returns=False"),
        ("--lr_schedule=kl_adaptive_epoch", "--optimizer=lamb"),
    ],
)
def test_gradients_are_those_of_a_single_process_on_all_that_was_sampled(make_learner, make_ranks, flags, tmp_path):
    alone = make_learner(*FLAGS, *flags, "--batch_size=16", folder=tmp_path / "alone", seed=5).start()
    rng = np.random.default_rng(7)
    alone.memory.values[:] = rng.normal(size=alone.memory.values.shape)
    alone.memory.observations["obs"][:] *= np.array([1, 5, 0.1], np.float32)
    alone.memory.inactive[5, 1] = True  # ranks have other numbers of steps that count
    ranks = make_ranks(*FLAGS, *flags, "--batch_size=8")
    for rank, run in enumerate(ranks):
        begin_as(alone, run, [2 * rank, 2 * rank + 1, 4 + 2 * rank, 5 + 2 * rank])
    for _ in range(3):
        alone.hand_over(*range(8))  # its minibatches are the first half and the second
        together(lambda run: run.hand_over(0, 1, 2, 3), ranks)
        for run in ranks:
            compare_gradients(run.learner._trainer.model, alone.learner._trainer.model)
    expected = alone.weights()
    assert alone.blueprint.weights[0].version == 12
    for run in ranks:
        assert run.learner._trainer.num_steps == 12
        for name, tensor in run.weights().items():
            torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
        assert run.learner._trainer.statistics()["train/learning_rate"] == pytest.approx(
            alone.learner._trainer.statistics()["train/learning_rate"]
        )
        assert run.counters.trained_frames[0] == alone.counters.trained_frames[0] == 3 * 8 * 4
    for one, other in zip(*(run.weights().values() for run in ranks), strict=True):
        assert torch.equal(one, other), "to the last bit: they never drift apart"


def compare_gradients(model, expected, rtol=1e-3):
    for parameter, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad, rtol=rtol, atol=1e-6)


def test_statistics_that_are_reported_are_those_of_all_ranks(make_learner, make_ranks, tmp_path):
    alone = make_learner("--batch_size=16", folder=tmp_path / "alone", seed=5).start()
    ranks = make_ranks("--batch_size=8")
    for rank, run in enumerate(ranks):
        begin_as(alone, run, [2 * rank, 2 * rank + 1])
    alone.hand_over(0, 1, 2, 3)
    together(lambda run: run.hand_over(0, 1), ranks)
    for run in ranks:
        assert run.learner._trainer.statistics() == pytest.approx(alone.learner._trainer.statistics(), abs=1e-5)


def test_all_begin_with_the_weights_of_the_first_which_alone_keeps_checkpoints(make_ranks):
    first, second = make_ranks()
    assert second.has_weights(first.weights())
    together(lambda run: run.hand_over(0, 1), [first, second])
    together(lambda run: run.learner.finish(), [first, second])
    assert first.checkpoints() == ["checkpoint_000000000_0.pth", "checkpoint_000000001_16.pth"]
    assert not (second.blueprint.run_folder / "checkpoint_p0").exists()
    assert second.learner.timers() == []


def test_a_rank_without_a_step_that_counts_takes_the_others_steps(make_ranks):
    first, second = make_ranks("--max_policy_lag=2")
    second.memory.policy_versions[:] = -9
    together(lambda run: run.hand_over(0, 1), [first, second])
    assert second.has_weights(first.weights())
    assert second.learner._trainer.num_steps == first.learner._trainer.num_steps == 1
    first.memory.policy_versions[:] = -9
    together(lambda run: run.hand_over(0, 1), [first, second])
    assert [run.learner._trainer.num_steps for run in (first, second)] == [1, 1]


def test_the_target_counts_the_frames_of_all_ranks(make_ranks):
    ranks = make_ranks("--train_for_env_steps=32")
    for number in (0, 1):
        together(lambda run: run.hand_over(0, 1), ranks)
        assert [run.of_type(TargetReached) for run in ranks] == [[TargetReached(0)] * number] * 2
    together(lambda run: run.learner.finish(), ranks)
    assert [run.of_type(RankEnded) for run in ranks] == [[], []]


@pytest.mark.parametrize(("state", "was_interrupted"), [(RankState.DONE, False), (RankState.INTERRUPTED, True)])
def test_one_that_ends_is_waited_for_by_nobody_and_ends_the_others(make_ranks, state, was_interrupted):
    first, second = make_ranks()
    together(lambda run: run.hand_over(0, 1), [first, second])
    first.counters.note_end(state)
    together(lambda step: step(), [first.learner.finish, lambda: second.hand_over(2, 3)])
    assert second.of_type(RankEnded) == [RankEnded(0, 0, was_interrupted)]
    second.trained()
    second.hand_over(0, 1)
    assert second.trained() == [0, 1], "workers go on until the run ends"
    assert second.learner._trainer.num_steps == 1
    second.learner.finish()


def test_a_failure_elsewhere_is_one_here(make_ranks):
    first, second = make_ranks()
    second.counters.note_end(RankState.FAILED)
    with ThreadPoolExecutor(1) as threads:
        leaving = threads.submit(second.learner.finish)
        with pytest.raises(RankError, match="rank 1 has failed: its own log says why"):
            first.hand_over(0, 1)
        leaving.result()
    first.learner.finish()


@pytest.mark.parametrize("failing", [0, 1])
def test_one_that_fails_while_it_prepares_a_dataset_ends_the_others_in_their_exchange(make_ranks, failing):
    ranks = make_ranks("--on_bad_numbers=stop", timeout_s=600.0)
    together(lambda run: run.hand_over(0, 1), ranks)
    ranks[failing].memory.rewards[2:4] = np.nan

    def hand_over(run):
        with pytest.raises(SampleProfilerError) as caught:
            run.hand_over(2, 3)
        run.learner.finish()
        return str(caught.value)

    messages = together(hand_over, ranks)
    reason = messages.pop(failing)
    assert "not finite" in reason
    assert messages[0].startswith(f"rank {failing} has failed: ")
    assert reason.splitlines()[0] in messages[0]
    if failing == 1:  # else they were the first one's own weights that may have spoiled it
        assert ranks[0].checkpoints()[-1] == "checkpoint_000000001_16.pth"


def test_one_that_fails_between_two_datasets_says_so_though_its_runner_may_not_know(make_ranks, monkeypatch):
    first, second = make_ranks()
    monkeypatch.setattr("sample_profiler.components.training.rank_meetings.has_reported_failure", lambda: True)
    with ThreadPoolExecutor(1) as threads:
        leaving = threads.submit(second.learner.finish)
        with pytest.raises(RankError, match="rank 1 has failed"):
            first.hand_over(0, 1)
        leaving.result()
    first.learner.finish()


def test_what_was_learned_before_a_rank_was_lost_is_saved(make_ranks):
    first, second = make_ranks()
    together(lambda run: run.hand_over(0, 1), [first, second])
    meetings = second.learner._meetings
    meetings._ranks._group = meetings._ranks._device_group = None  # its connections end with it
    with pytest.raises(RankError, match="another rank is lost"):
        first.hand_over(2, 3)
    first.learner.finish()
    assert first.checkpoints()[-1] == "checkpoint_000000001_16.pth"


def test_two_ranks_wait_for_each_other_in_a_block_of_its_own_and_one_alone_does_not(make_ranks, make_learner, tmp_path):
    ranks = make_ranks()
    together(lambda run: run.hand_over(0, 1), ranks)
    for run in ranks:
        assert "wait_ranks" in run.learner.timing
        assert "all_reduce" in run.learner.timing
        assert run.learner.gauges()["slowest_rank"] in (0, 1)
    alone = make_learner(folder=tmp_path / "alone").start()
    alone.hand_over(0, 1)
    assert "wait_ranks" not in alone.learner.timing
    assert "all_reduce" not in alone.learner.timing
    assert "slowest_rank" not in alone.learner.gauges()
