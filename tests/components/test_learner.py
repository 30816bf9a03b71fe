"""The Learner: trains on what it is handed, hands it back, publishes and counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sample_profiler.components.messages import (
    CheckpointSaved,
    TargetReached,
    TrainingStatistics,
    TrainingStep,
    WeightsPublished,
)
from sample_profiler.errors import TrainingError
from sample_profiler.model import cores
from sample_profiler.runtime.loop.event_loop import EventLoop, PipeWaiter


def test_it_begins_with_weights_for_everybody_and_a_checkpoint(make_learner):
    run = make_learner("--policy_workers_per_policy=3").start()
    assert run.blueprint.weights[0].version == 0
    assert [channel.receive() for channel in run.blueprint.channels.first_weights[0]] == [[0], [0], [0]]
    assert run.checkpoints() == ["checkpoint_000000000_0.pth"]
    assert run.reports.receive() == []


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_kernels_of_a_recurrent_network_are_made_before_the_first_dataset(make_learner, monkeypatch, share, precision):
    made = []
    monkeypatch.setattr(cores, "make_kernels", lambda weights, most: made.append((weights.hidden.dtype, most)))
    monkeypatch.setattr(cores, "can_multiply", lambda values, dtype=None: True)
    make_learner("--use_rnn=True", f"--precision={precision}", f"--actor_critic_share_weights={share}").start()
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    # Two sequences of four steps go through the core at once: there are no more fragments than steps.
    assert made == [(dtype, 8)] * (1 if share else 2)


@pytest.mark.parametrize("flags", [(), ("--with_vtrace=True", "--recurrence=4"), ("--use_rnn=True",),
                                   ("--normalize_returns=False", "--value_bootstrap=True")])  # fmt: skip
def test_a_dataset_is_trained_on_counted_published_and_handed_back(make_learner, flags):
    run = make_learner(*flags, "--env_frameskip=4").start()
    before = run.weights()
    run.hand_over(3, 1)
    assert run.trained() == [3, 1]
    assert not run.has_weights(before)
    assert run.blueprint.weights[0].version == 1
    assert run.counters.optimizer_steps[0] == 1
    assert run.counters.trained_frames[0] == 2 * 4 * 4
    assert run.counters.first_training_ns[0] > 0
    published = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    run.blueprint.weights[0].load_into(published)
    assert run.has_weights(published)
    assert all(tensor.isfinite().all() for tensor in published.values())


def test_minibatches_and_epochs_are_optimizer_steps(make_learner):
    run = make_learner("--num_batches_per_epoch=2", "--num_epochs=3", "--shuffle_minibatches=True").start()
    run.hand_over(0, 1, 2, 3)
    assert run.blueprint.weights[0].version == 6
    assert run.counters.trained_frames[0] == 4 * 4


def test_it_tells_how_many_threads_it_has(make_learner):
    assert make_learner().learner.gauges()["num_threads"] == torch.get_num_threads()


def test_it_saves_when_it_is_asked_to_and_not_twice_the_same(make_learner):
    run = make_learner("--save_every_sec=100000").start()
    run.hand_over(3, 1)
    assert run.checkpoints() == ["checkpoint_000000000_0.pth"]
    save = run.learner.commands()["save_checkpoint"]
    assert save() is None
    saved = run.checkpoints()
    assert len(saved) == 2
    save()
    assert run.checkpoints() == saved


def test_half_a_dataset_waits_for_the_rest_and_two_are_two(make_learner):
    run = make_learner().start()
    run.hand_over(3)
    assert run.trained() == []
    assert run.learner.gauges()["pending_trajectories"] == 1
    run.hand_over(1, 0)
    assert run.trained() == [3, 1]
    assert run.blueprint.weights[0].version == 1
    run.hand_over(2, 4)
    assert run.trained() == [0, 2]
    assert run.blueprint.weights[0].version == 2
    assert run.learner.gauges()["pending_trajectories"] == 1


def test_no_dataset_overtakes_an_older_one(make_learner, monkeypatch):
    run = make_learner().start()
    channel, trained, after = run.blueprint.channels.datasets[0], [], [(4, 5), (6, 7)]

    def end_dataset():
        trained.append(run.trained())
        if after:
            channel.send(after.pop(0))  # the Batcher hands over the next while others still wait
        else:
            loop.stop()

    monkeypatch.setattr(run.learner.progress, "end_dataset", end_dataset)
    monkeypatch.setattr(run.learner, "start", lambda: None)
    channel.send((0, 1, 2, 3))
    loop = EventLoop([run.learner], PipeWaiter)
    loop.run()
    assert trained == [[0, 1], [2, 3], [4, 5]], "in the order in which they were filled; the loop may end in between"
    assert channel.receive() == [6, 7]


def test_the_target_is_told_and_later_datasets_go_back_as_they_are(make_learner):
    run = make_learner("--train_for_env_steps=16").start()
    run.hand_over(0, 1)
    assert run.of_type(TargetReached) == []
    run.hand_over(2, 3)
    assert run.of_type(TargetReached) == [TargetReached(0)]
    run.trained()
    weights = run.weights()
    run.hand_over(0, 1)
    assert run.trained() == [0, 1], "workers that another policy uses, too, go on"
    assert run.has_weights(weights)
    assert run.counters.trained_frames[0] == 16


def test_experience_that_is_too_old_is_not_trained_on(make_learner):
    run = make_learner("--max_policy_lag=2").start()
    before = {name: parameter.clone() for name, parameter in run.learner._trainer.model.named_parameters()}
    run.memory.policy_versions[:] = -3
    run.hand_over(0, 1)
    assert run.has_weights(before)
    assert run.trained() == [0, 1], "it is handed back all the same"
    assert run.learner.gauges()["left_out_share"] == 1.0
    run.memory.policy_versions[:] = -2
    run.hand_over(0, 1)
    assert not run.has_weights(before)
    assert run.learner.gauges()["left_out_share"] == 0.0


def test_datasets_without_a_finite_step_are_rejected_and_those_of_inactive_agents_or_old_ones_are_not(make_learner):
    run = make_learner("--max_policy_lag=2").start()
    run.memory.inactive[:] = True
    for _ in range(12):
        run.hand_over(0, 1)
    run.memory.spoiled[:] = True
    run.memory.policy_versions[:] = -3
    run.hand_over(0, 1)
    assert not run.learner._trainer.steps.is_suspect
    run.memory.policy_versions[:] = 0
    for _ in range(9):
        run.hand_over(0, 1)
    assert not run.learner._trainer.steps.is_suspect, "nothing was made of them"
    with pytest.raises(TrainingError, match="of all 8 steps are not finite for the 10th time in a row"):
        run.hand_over(0, 1)


def test_what_was_learned_before_bad_numbers_alone_came_is_saved(make_learner):
    run = make_learner().start()
    run.hand_over(0, 1)
    run.memory.inactive[:] = run.memory.spoiled[:] = True
    for _ in range(9):
        run.hand_over(0, 1)
    with pytest.raises(TrainingError):
        run.hand_over(0, 1)
    run.learner.finish()
    num_steps = run.learner._trainer.num_steps
    assert num_steps > 0
    assert run.checkpoints()[-1].split("_")[1] == f"{num_steps:09}"


def lags_of(counters):
    return counters.lag_sum[0], counters.lag_count[0], counters.lag_min[0], counters.lag_max[0]


def test_lag_is_counted_as_it_was_before_training(make_learner):
    run = make_learner("--num_epochs=2").start()
    run.memory.policy_versions[:] = 0
    run.hand_over(0, 1)
    assert lags_of(run.counters) == (0, 8, 0, 0)
    run.memory.policy_versions[2] = 1
    run.hand_over(2, 3)  # versions 1 and 0, while the Learner is at 2
    assert lags_of(run.counters) == (12, 16, 0, 2)
    run.memory.policy_versions[:] = 4
    run.hand_over(0, 1)
    assert lags_of(run.counters) == (12, 24, 0, 2)


def test_lag_is_exact_however_long_a_policy_has_been_trained(make_learner):
    run = make_learner("--max_policy_lag=2")
    run.learner._trainer.steps.num = 2**40
    run.start()
    run.memory.policy_versions[:] = 2**40 - 3
    run.memory.policy_versions[1] = 2**40 - 1
    run.hand_over(0, 1)
    assert lags_of(run.counters) == (16, 8, 1, 3)
    assert run.learner.gauges()["left_out_share"] == 0.5


def test_statistics_are_reported_now_and_then(make_learner):
    run = make_learner().start()
    run.hand_over(0, 1)
    run.hand_over(2, 3)
    (statistics,) = run.of_type(TrainingStatistics)
    assert (statistics.policy, statistics.frames) == (0, 8)
    assert statistics.values["train/reward_mean"] == pytest.approx(run.memory.rewards[:2].mean(), rel=1e-5)
    assert all(isinstance(value, float) for value in statistics.values.values())


@pytest.mark.parametrize("value_bootstrap", [True, False])
def test_the_value_behind_the_last_step_is_that_of_its_observation(make_learner, value_bootstrap):
    """Trajectories of one step: the return is the reward and what follows, by hand."""
    run = make_learner(
        "--rollout=1", "--batch_size=4", "--gamma=0.5", "--normalize_returns=False", "--reward_clip=1000",
        f"--value_bootstrap={value_bootstrap}",
    )  # fmt: skip
    model = run.learner._trainer.model
    with torch.no_grad():
        model.value_head.weight.zero_()
        model.value_head.bias.fill_(10.0)  # every state is worth 10
    memory = run.memory
    memory.rewards[:4, 0], memory.values[:], memory.final_values[:] = 1.0, 0.0, -777.0
    memory.terminated[1] = memory.truncated[2] = True
    received = []
    learner = run.learner
    make_targets = learner._targets.estimate
    learner._targets.estimate = lambda *arguments: received.append(make_targets(*arguments)) or received[-1]
    run.start().hand_over(0, 1, 2, 3)
    returns = received[0].returns.flatten().tolist()
    after_a_cut = 1 + 0.5 * 10 if value_bootstrap else 1
    assert returns == [1 + 0.5 * 10, 1, after_a_cut, 1 + 0.5 * 10]


def test_values_of_final_observations_in_the_middle_are_those_of_inference(make_learner):
    run = make_learner(
        "--rollout=2", "--batch_size=2", "--gamma=0.5", "--gae_lambda=1.0", "--normalize_returns=False",
        "--reward_clip=1000", "--value_bootstrap=True",
    )  # fmt: skip
    memory = run.memory
    memory.rewards[:], memory.values[:] = 1.0, 0.0
    memory.truncated[0, 0], memory.final_values[0, 0] = True, 6.0
    received = []
    make_targets = run.learner._targets.estimate
    run.learner._targets.estimate = lambda *arguments: received.append(make_targets(*arguments)) or received[-1]
    run.start().hand_over(0)
    assert received[0].returns.flatten()[0].item() == 1 + 0.5 * 6


@pytest.mark.parametrize(
    ("ratios", "targets"),
    [
        # Values are all 10, gamma is 0.5, rewards 1: each difference is 1 + 0.5 * 10 - 10 = -4.
        ((1.0, 1.0), (10 - 4 - 0.5 * 4, 10 - 4)),
        ((0.01, 0.02), (10 - 0.01 * 4 - 0.5 * 0.01 * 0.02 * 4, 10 - 0.02 * 4)),
        ((50.0, 0.5), (10 - 4 - 0.5 * 0.5 * 4, 10 - 0.5 * 4)),
    ],
)
def test_vtrace_weighs_by_ratios_of_the_present_network_and_bounds_them_above_alone(make_learner, ratios, targets):
    run = make_learner(
        "--rollout=2", "--batch_size=2", "--gamma=0.5", "--normalize_returns=False", "--with_vtrace=True",
        "--recurrence=2", "--use_rnn=False",
    )  # fmt: skip
    model = run.learner._trainer.model
    with torch.no_grad():
        model.value_head.weight.zero_()
        model.value_head.bias.fill_(10.0)
        for parameter in model.action_head.parameters():
            parameter.zero_()  # each of four actions is as probable
    memory = run.memory
    memory.rewards[0], memory.values[:] = 1.0, -777.0
    memory.log_probabilities[0] = np.log(0.25) - np.log(ratios)
    received = []
    make_targets = run.learner._targets.estimate
    run.learner._targets.estimate = lambda *arguments: received.append(make_targets(*arguments)) or received[-1]
    run.start().hand_over(0)
    assert received[0].returns.flatten().tolist() == pytest.approx(targets, abs=1e-5)


@pytest.mark.parametrize("flags", [(), ("--with_vtrace=True",)], ids=["GAE", "V-trace"])
def test_advantages_go_on_behind_steps_of_inactive_agents_and_through_those_with_bad_numbers(make_learner, flags):
    """All values are 10, gamma is 0.5, lambda 1, all actions as probable as when they were drawn."""
    run = make_learner(
        "--rollout=4", "--batch_size=8", "--gamma=0.5", "--gae_lambda=1.0", "--normalize_returns=False",
        "--reward_scale=0.5", "--reward_clip=4", "--use_rnn=False", *flags,
    )  # fmt: skip
    model, memory = run.learner._trainer.model, run.memory
    with torch.no_grad():
        model.value_head.weight.zero_()
        model.value_head.bias.fill_(10.0)
        for parameter in model.action_head.parameters():
            parameter.zero_()
    memory.values[:] = 10.0
    memory.rewards[:2] = [2.0, 4.0, 100.0, 8.0]
    memory.inactive[:2, 1:3] = True
    memory.values[0, 1:3] = -777.0
    memory.spoiled[1, 1:3] = True
    received = []
    make_targets = run.learner._targets.estimate
    run.learner._targets.estimate = lambda *arguments: received.append(make_targets(*arguments)) or received[-1]
    run.start().hand_over(0, 1)
    returns = received[0].returns.view(2, 4).tolist()
    # The rewards of the first: (2 + 4 + 100) / 2, clipped to 4, and 8 / 2. Of the second: 1, 2, 4 and 4.
    assert returns[0] == pytest.approx([4 + 0.5 * (4 + 5), 0, 0, 4 + 5])
    assert returns[1] == pytest.approx([1 + 0.5 * (2 + 0.5 * (4 + 0.5 * 9)), 2 + 0.5 * (4 + 0.5 * 9), 4 + 0.5 * 9, 9])
    assert received[0].valid.view(2, 4).tolist() == [[1, 0, 0, 1]] * 2


def test_returns_of_steps_that_are_not_trained_on_are_in_no_statistic(make_learner):
    run = make_learner("--rollout=1", "--batch_size=2", "--max_policy_lag=5", "--reward_clip=1000000").start()
    run.memory.terminated[:] = True
    run.memory.rewards[:4, 0] = (3.0, 9999.0, 5.0, 9999.0)
    run.memory.inactive[1, 0] = True
    run.memory.policy_versions[3] = -9
    run.hand_over(0, 1)
    run.hand_over(2, 3)
    statistics = run.learner._trainer.model.returns_normalizer
    # It begins as if it had seen a 0.
    assert statistics.count.item() == 3
    assert statistics.mean.item() == pytest.approx((0 + 3 + 5) / 3)


@pytest.mark.parametrize("inactive", [[], [0], [2, 5], list(range(8))])
def test_what_fills_places_of_agents_without_a_part_is_in_no_statistic_of_observations(make_learner, inactive):
    run = make_learner("--recurrence=2").start()
    observations = run.memory.observations["obs"][:2, :4]
    observations[:] = np.random.default_rng(3).normal(3.0, 1.0, observations.shape)
    steps = observations.reshape(8, -1)
    seen = np.delete(steps, inactive, axis=0)
    for step in inactive:
        run.memory.inactive[divmod(step, 4)] = True
        observations[divmod(step, 4)] = 9999.0
    run.hand_over(0, 1)
    (statistics,) = (entry.statistics for entry in run.learner._trainer.model.observation_normalizer.entries)
    # It begins as if it had seen one observation of mean 0.
    assert statistics.count.item() == 1 + len(seen)
    assert statistics.mean.numpy().ravel() == pytest.approx(seen.sum(0) / (1 + len(seen)), abs=1e-5)


def test_rewards_are_scaled_and_clipped(make_learner):
    run = make_learner(
        "--rollout=1", "--batch_size=2", "--normalize_returns=False", "--reward_scale=2", "--reward_clip=5",
        "--gamma=0.9",
    )  # fmt: skip
    run.memory.rewards[:2, 0], run.memory.values[:] = (1.5, -40.0), 0.0
    run.memory.terminated[:] = True
    received = []
    make_targets = run.learner._targets.estimate
    run.learner._targets.estimate = lambda *arguments: received.append(make_targets(*arguments)) or received[-1]
    run.start().hand_over(0, 1)
    assert received[0].returns.flatten().tolist() == [3.0, -5.0]


@pytest.mark.parametrize(
    ("owner", "method"), [("_targets", "_evaluate"), ("_epochs", "_train_minibatch"), ("", "_update_normalizer")]
)
def test_it_gives_signs_of_life_with_every_piece_of_long_work(make_learner, monkeypatch, owner, method):
    run = make_learner("--with_vtrace=True", "--recurrence=4").start()
    learner, beats, inside = run.learner, [], []
    learner._micro_batches.chunks_at_once = 1  # of the two chunks of the dataset
    worker = getattr(learner, owner) if owner else learner
    work = getattr(worker, method)

    def watched(*arguments):
        before = len(beats)
        result = work(*arguments)
        inside.append(len(beats) - before)
        return result

    monkeypatch.setattr(worker, method, watched)
    monkeypatch.setattr(learner._pulse, "beat", beats.append)
    run.hand_over(0, 1)
    assert inside[0] >= (1 if method == "_update_normalizer" else 2)


def test_patience_is_asked_for_until_the_first_minibatch_is_done(make_learner, monkeypatch):
    """What torch.compile takes its time for is the encoder's first pass, in the middle of it."""
    run = make_learner("--num_epochs=2").start()
    learner, patience = run.learner, []
    learner._options = replace(learner._options, first_step_patience_s=600.0)
    train = learner._epochs._train_minibatch

    def train_and_tell(*arguments):
        train(*arguments)
        patience.append("trained")

    monkeypatch.setattr(learner._epochs, "_train_minibatch", train_and_tell)
    monkeypatch.setattr(learner._pulse, "beat", patience.append)
    run.hand_over(0, 1)
    first = patience.index("trained")
    assert set(patience[:first]) == {600.0}
    assert set(patience[first:]) == {"trained", 0.0}


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_a_run_in_bf16_looks_once_whether_fp32_is_quicker_and_learns_nothing_of_that(
    make_learner, monkeypatch, precision
):
    passes: list[tuple[str, int]] = []
    runs = [make_learner(f"--precision={precision}", "--seed=1").start() for _ in range(2)]
    trainer = runs[0].learner._trainer
    time_pass = trainer.time_pass

    def note(precision, batch, targets):
        passes.append((precision, targets.valid.numel()))
        return time_pass(precision, batch, targets)

    monkeypatch.setattr(trainer, "time_pass", note)
    monkeypatch.setattr(runs[1].learner._precision_trial, "is_due", lambda: False)
    for run in runs:
        for _ in range(4):
            run.hand_over(0, 1)
    assert passes == (3 * [("bf16", 8), ("fp32", 8)] if precision == "bf16" else [])
    assert runs[0].has_weights(runs[1].weights())
    assert trainer.passes.precision == precision


@pytest.mark.parametrize(
    ("goals", "rates"),
    [
        (("--train_for_env_steps=80", "--train_for_seconds=10"), (0.0009, 0.0008)),
        (("--train_for_seconds=10",), (0.001, 0.0006)),
    ],
)
def test_a_rate_that_decays_follows_frames_or_where_none_are_asked_for_seconds(make_learner, monkeypatch, goals, rates):
    run = make_learner("--lr_schedule=linear_decay", "--learning_rate=0.001", *goals).start()
    seen = []
    for seconds in (0.0, 4.0):  # after 8 and 16 frames
        monkeypatch.setattr(run.counters.goal_times, "elapsed_s", lambda seconds=seconds: seconds)
        run.hand_over(0, 1)
        seen.append(run.learner._trainer.statistics()["train/learning_rate"])
    assert seen == pytest.approx(rates)


def test_its_tree_has_the_parts_of_training(make_learner):
    run = make_learner("--save_every_sec=1").start()
    run.hand_over(0, 1)
    blocks = {"prepare_batch", "train", "epoch_init", "bptt_initial", "after_optimizer", "save_checkpoint"}
    assert blocks <= set(run.learner.timing)
    assert run.learner.name == "Learner_0"
    assert run.learner.wait_block() == "wait_batcher"


def test_signals_are_reported_only_where_somebody_has_connected(make_learner):
    run = make_learner().start()
    run.hand_over(0, 1)
    signals = (TrainingStep, WeightsPublished, CheckpointSaved)
    assert not [report for report in run.reports.receive() if isinstance(report, signals)]
    run.learner._options = replace(run.learner._options, told=frozenset(signals))
    run.hand_over(0, 1)
    run.learner.finish()
    told = [report for report in run.reports.receive() if isinstance(report, signals)]
    version = int(run.counters.optimizer_steps[0])
    path = str(run.blueprint.run_folder / "checkpoint_p0" / run.checkpoints()[-1])
    assert told == [
        WeightsPublished("Learner_0", 0, version),
        TrainingStep("Learner_0", 0, 2, 16),
        CheckpointSaved("Learner_0", 0, "latest", path, 16),
    ]
