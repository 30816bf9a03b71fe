"""The Learner: trains on what it is handed, hands it back, publishes, counts, saves and goes on where it was."""

from __future__ import annotations

import errno

import numpy as np
import pytest
import torch

from sample_profiler.components.messages import TargetReached, TrainingStatistics
from sample_profiler.errors import CheckpointError
from sample_profiler.storage.checkpoints import CheckpointFolder


class Run:
    """A Learner and the other ends of its channels; a dataset is two trajectories of four steps."""

    def __init__(self, blueprint, learner, reports):
        self.blueprint, self.learner, self.reports = blueprint, learner, reports
        self.memory, self.counters = blueprint.trajectories, blueprint.counters
        rng = np.random.default_rng(3)
        memory = self.memory
        memory.observations["obs"][:] = rng.uniform(-1, 1, memory.observations["obs"].shape)
        memory.rewards[:] = rng.uniform(-1, 1, memory.rewards.shape)
        memory.actions[:] = rng.integers(0, 4, memory.actions.shape)
        memory.action_parameters[:] = 0
        memory.log_probabilities[:] = np.log(0.25)

    def start(self):
        self.learner.start()
        return self

    def hand_over(self, *slots):
        self.learner.inputs()[0].handle(list(slots))

    def trained(self):
        return self.blueprint.channels.trained[0].receive()

    def of_type(self, kind):
        return [report for report in self.reports.receive() if isinstance(report, kind)]

    def weights(self):
        return {name: tensor.clone() for name, tensor in self.learner._trainer.model.state_dict().items()}

    def checkpoints(self, kind="checkpoint"):
        folder = self.blueprint.run_folder / "checkpoint_p0"
        return sorted(path.name for path in folder.rglob(f"{kind}_*.pth"))


@pytest.fixture
def make_learner(make_blueprint, make_component):
    def make(*flags, **arguments):
        blueprint = make_blueprint(*flags, **arguments)
        return Run(blueprint, *make_component(blueprint, "Learner_0"))

    return make


def are_equal(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_it_begins_with_weights_for_everybody_and_a_checkpoint(make_learner):
    run = make_learner("--policy_workers_per_policy=3").start()
    assert run.blueprint.weights[0].version == 0
    assert [channel.receive() for channel in run.blueprint.channels.first_weights[0]] == [[0], [0], [0]]
    assert run.checkpoints() == ["checkpoint_000000000_0.pth"]
    assert run.reports.receive() == []


@pytest.mark.parametrize("flags", [(), ("--with_vtrace=True", "--recurrence=4"), ("--use_rnn=True",),
                                   ("--normalize_returns=False", "--value_bootstrap=True")])  # fmt: skip
def test_a_dataset_is_trained_on_counted_published_and_handed_back(make_learner, flags):
    run = make_learner(*flags, "--env_frameskip=4").start()
    before = run.weights()
    run.hand_over(3, 1)
    assert run.trained() == [3, 1]
    assert not are_equal(before, run.weights())
    assert run.blueprint.weights[0].version == 1
    assert run.counters.optimizer_steps[0] == 1
    assert run.counters.trained_frames[0] == 2 * 4 * 4
    assert run.counters.first_training_ns[0] > 0
    published = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    run.blueprint.weights[0].load_into(published)
    assert are_equal(published, run.weights())
    assert all(tensor.isfinite().all() for tensor in published.values())


def test_minibatches_and_epochs_are_optimizer_steps(make_learner):
    run = make_learner("--num_batches_per_epoch=2", "--num_epochs=3", "--shuffle_minibatches=True").start()
    run.hand_over(0, 1, 2, 3)
    assert run.blueprint.weights[0].version == 6
    assert run.counters.trained_frames[0] == 4 * 4


def test_it_tells_how_many_threads_it_has(make_learner):
    assert make_learner().learner.gauges()["num_threads"] == torch.get_num_threads()


def test_half_a_dataset_waits_for_the_rest_and_two_are_two(make_learner):
    run = make_learner().start()
    run.hand_over(3)
    assert run.trained() == []
    assert run.learner.gauges()["pending_trajectories"] == 1
    run.hand_over(1, 0, 2, 4)
    assert run.trained() == [3, 1]
    assert run.blueprint.weights[0].version == 1
    # The rest is in the channel again: between two datasets the loop looks whether the run is to end.
    run.hand_over(*run.blueprint.channels.datasets[0].receive())
    assert run.trained() == [0, 2]
    assert run.blueprint.weights[0].version == 2
    assert run.learner.gauges()["pending_trajectories"] == 1


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
    assert are_equal(weights, run.weights())
    assert run.counters.trained_frames[0] == 16


def test_a_resumed_run_goes_on_where_it_was(make_learner):
    flags = ("--shuffle_minibatches=True", "--num_batches_per_epoch=2", "--recurrence=1")
    first = make_learner(*flags).start()
    first.hand_over(0, 1, 2, 3)
    first.learner.finish()
    resumed = make_learner(*flags, seed=99).start()
    assert are_equal(first.weights(), resumed.weights())
    assert resumed.blueprint.weights[0].version == 2
    assert (resumed.counters.trained_frames[0], resumed.counters.resumed_frames[0]) == (16, 16)
    # Also the optimizer and the order of minibatches: both do the same from here on.
    for run in (first, resumed):
        run.hand_over(0, 1, 2, 3)
    assert are_equal(first.weights(), resumed.weights())


def test_the_first_dataset_after_a_resume_is_trained_on_at_the_rate_of_its_frames(make_learner):
    flags = ("--lr_schedule=linear_decay", "--learning_rate=0.01", "--train_for_env_steps=32")
    run = make_learner(*flags).start()
    assert run.learner._trainer._optimizer.learning_rate == 0.01
    run.hand_over(0, 1)
    run.learner.finish()
    resumed = make_learner(*flags)
    assert resumed.learner._trainer._optimizer.learning_rate == 0.01 * (1 - 8 / 32)
    resumed.start()
    for each in (run, resumed):
        each.hand_over(0, 1)
    assert are_equal(run.weights(), resumed.weights())


def test_a_run_resumed_past_its_target_ends_at_once(make_learner):
    run = make_learner().start()
    run.hand_over(0, 1)
    run.learner.finish()
    resumed = make_learner("--train_for_env_steps=8").start()
    assert resumed.of_type(TargetReached) == [TargetReached(0)]
    resumed.learner.finish()
    assert resumed.checkpoints() == run.checkpoints()


@pytest.mark.parametrize("flags", [("--encoder_mlp_layers", "9"), ("--use_rnn=False",)])
def test_a_checkpoint_of_another_network_is_an_error_that_says_what_to_do(make_learner, flags):
    make_learner("--use_rnn=True").start()
    with pytest.raises(CheckpointError, match=r"is not of this network .*--restart_behavior=overwrite"):
        make_learner("--use_rnn=True", *flags)


def test_a_run_without_a_best_policy_is_not_begun_anew_where_that_is_to_be_loaded(make_learner):
    run = make_learner().start()
    run.hand_over(0, 1)
    run.learner.finish()
    before = run.checkpoints()
    with pytest.raises(CheckpointError, match="there is no best checkpoint"):
        make_learner("--load_checkpoint_kind=best").start()
    assert run.checkpoints() == before == ["checkpoint_000000000_0.pth", "checkpoint_000000001_8.pth"]


@pytest.mark.parametrize("state", [{"something": "else"}, [1, 2], torch.zeros(3)])
def test_a_checkpoint_of_something_else_is_an_error_too(make_learner, tmp_path, state):
    folder = CheckpointFolder(tmp_path, 0, 2)
    folder.save({}, 5, 5)
    torch.save(state, folder.path / "checkpoint_000000005_5.pth")
    with pytest.raises(CheckpointError):
        make_learner()


def test_checkpoints_are_saved_when_there_is_something_new(make_learner):
    run = make_learner().start()
    save, *_ = run.learner.timers()
    assert save.interval_s == 120.0
    save.callback()
    run.hand_over(0, 1)
    save.callback()
    save.callback()
    run.learner.finish()
    assert run.checkpoints() == ["checkpoint_000000000_0.pth", "checkpoint_000000001_8.pth"]


def test_weights_of_a_training_step_that_failed_are_not_saved(make_learner, monkeypatch):
    run = make_learner().start()
    run.hand_over(0, 1)
    monkeypatch.setattr(run.learner, "_publish", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.hand_over(2, 3)
    run.learner.finish()
    assert run.checkpoints() == ["checkpoint_000000000_0.pth"]


def test_milestones_are_saved_as_asked(make_learner):
    run = make_learner("--save_milestones_sec=60", "--keep_checkpoints=1").start()
    milestone = next(timer for timer in run.learner.timers() if timer.interval_s == 60)
    for _ in range(2):
        run.hand_over(0, 1)
        milestone.callback()
    folder = run.blueprint.run_folder / "checkpoint_p0" / "milestones"
    assert len(list(folder.iterdir())) == 2
    assert all(timer.interval_s != 60 for timer in make_learner("--benchmark=True").learner.timers())


def test_the_best_policy_is_saved_when_it_is_better_than_ever(make_learner):
    run = make_learner("--save_best_every_sec=5", "--save_best_after=8").start()
    save_best = next(timer for timer in run.learner.timers() if timer.interval_s == 5).callback
    metric = run.counters.metric
    metric[0] = 100.0
    save_best()
    assert run.checkpoints("best") == [], "too early"
    run.hand_over(0, 1)
    metric[0] = np.nan
    save_best()
    assert run.checkpoints("best") == [], "no episode has ended yet"
    for value, expected in [(-5.0, -5.0), (-7.0, -5.0), (-5.0, -5.0), (2.0, 2.0), (1.0, 2.0)]:
        metric[0] = value
        save_best()
        assert run.checkpoints("best") == [f"best_000000001_8_reward_{expected:.3f}.pth"]


def test_the_best_so_far_is_remembered_over_a_resume(make_learner):
    flags = ("--save_best_every_sec=5", "--save_best_after=0")
    for value in (3.0, 2.0):
        run = make_learner(*flags).start()
        run.counters.metric[0] = value
        next(timer for timer in run.learner.timers() if timer.interval_s == 5).callback()
        run.hand_over(0, 1)
        run.learner.finish()
    assert run.checkpoints("best") == ["best_000000000_0_reward_3.000.pth"]


def save_best(run, metric):
    run.counters.metric[0] = metric
    next(timer for timer in run.learner.timers() if timer.interval_s == 5).callback()


def test_the_best_so_far_is_remembered_over_a_kill(make_learner):
    """The best one was saved after the latest, which does not know of it."""
    flags = ("--save_best_every_sec=5", "--save_best_after=0")
    killed = make_learner(*flags).start()
    save_best(killed, 0.0004)
    killed.hand_over(0, 1)
    resumed = make_learner(*flags).start()
    resumed.hand_over(0, 1)
    save_best(resumed, 0.0003)
    assert resumed.checkpoints("best") == ["best_000000000_0_reward_0.000.pth"]
    save_best(resumed, 0.0005)
    assert resumed.checkpoints("best") == ["best_000000001_8_reward_0.001.pth"]


def test_a_best_checkpoint_that_the_latest_knows_of_is_not_read(make_learner, caplog):
    flags = ("--save_best_every_sec=5", "--save_best_after=0")
    run = make_learner(*flags).start()
    save_best(run, 3.0)
    run.hand_over(0, 1)
    run.learner.finish()
    path = run.blueprint.run_folder / "checkpoint_p0" / "best_000000000_0_reward_3.000.pth"
    path.write_bytes(b"nothing that can be read")
    resumed = make_learner(*flags).start()
    assert caplog.text == ""
    save_best(resumed, 2.0)
    assert resumed.checkpoints("best") == [path.name]


@pytest.mark.parametrize("content", ["damaged", {}, {"best_metric": "high"}, {"best_metric": None}])
def test_a_best_checkpoint_that_cannot_be_used_is_no_obstacle(make_learner, content):
    flags = ("--save_best_every_sec=5", "--save_best_after=0")
    killed = make_learner(*flags).start()
    save_best(killed, 9.0)
    path = killed.blueprint.run_folder / "checkpoint_p0" / "best_000000000_0_reward_9.000.pth"
    if content == "damaged":
        path.write_bytes(path.read_bytes()[:500])
    else:
        torch.save(content, path)
    resumed = make_learner(*flags).start()
    resumed.hand_over(0, 1)
    save_best(resumed, 1.0)
    assert resumed.checkpoints("best") == ["best_000000001_8_reward_1.000.pth"]


def test_a_benchmark_saves_no_best_policy(make_learner):
    intervals = {timer.interval_s for timer in make_learner("--save_best_every_sec=7").learner.timers()}
    assert 7 in intervals
    run = make_learner("--save_best_every_sec=7", "--benchmark=True")
    assert 7 not in {timer.interval_s for timer in run.learner.timers()}


def test_experience_that_is_too_old_is_not_trained_on(make_learner):
    run = make_learner("--max_policy_lag=2").start()
    before = {name: parameter.clone() for name, parameter in run.learner._trainer.model.named_parameters()}
    run.memory.policy_versions[:] = -3
    run.hand_over(0, 1)
    assert are_equal(before, dict(run.learner._trainer.model.named_parameters()))
    assert run.trained() == [0, 1], "it is handed back all the same"
    assert run.learner.gauges()["left_out_share"] == 1.0
    run.memory.policy_versions[:] = -2
    run.hand_over(0, 1)
    assert not are_equal(before, dict(run.learner._trainer.model.named_parameters()))
    assert run.learner.gauges()["left_out_share"] == 0.0


@pytest.fixture
def full_disk(monkeypatch):
    """A switch: while it is on, no checkpoint can be written."""
    switch = {"is_full": False}
    save = torch.save

    def save_if_there_is_room(state, file):
        if switch["is_full"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(state, file)

    monkeypatch.setattr(torch, "save", save_if_there_is_room)
    return switch


def test_a_save_that_fails_is_a_warning_tried_again_and_at_the_end_a_failure(make_learner, full_disk, caplog):
    run = make_learner("--save_every_sec=9", "--save_milestones_sec=8", "--save_best_every_sec=7",
                       "--save_best_after=0").start()  # fmt: skip
    run.hand_over(0, 1)
    run.counters.metric[0] = 5.0
    full_disk["is_full"] = True
    timers = {timer.interval_s: timer.callback for timer in run.learner.timers()}
    for interval_s in (9, 8, 7):
        timers[interval_s]()
        assert "No space left on device" in caplog.text
        assert f"Training goes on, and tries again in {interval_s} s" in caplog.text
    assert run.checkpoints() == ["checkpoint_000000000_0.pth"]
    with pytest.raises(CheckpointError, match="No space left on device; what was saved before is as it was"):
        run.learner.finish()
    full_disk["is_full"] = False
    for callback in timers.values():
        callback()
    assert "checkpoint_000000001_8.pth" in run.checkpoints()
    assert run.checkpoints("best") == ["best_000000001_8_reward_5.000.pth"]


def test_a_run_that_cannot_save_at_all_does_not_begin(make_learner, full_disk):
    full_disk["is_full"] = True
    with pytest.raises(CheckpointError, match="cannot write the checkpoint"):
        make_learner().start()


def test_lag_is_counted_as_it_was_before_training(make_learner):
    run = make_learner("--num_epochs=2").start()
    run.memory.policy_versions[:] = 0
    run.hand_over(0, 1)
    assert (run.counters.lag_sum[0], run.counters.lag_count[0], run.counters.lag_max[0]) == (0, 8, 0)
    run.memory.policy_versions[2] = 1
    run.hand_over(2, 3)  # versions 1 and 0, while the Learner is at 2
    assert (run.counters.lag_sum[0], run.counters.lag_count[0], run.counters.lag_max[0]) == (12, 16, 2)


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
    prepare = learner._prepare
    learner._prepare = lambda *arguments: received.append(prepare(*arguments)) or received[-1]
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
    prepare = run.learner._prepare
    run.learner._prepare = lambda *arguments: received.append(prepare(*arguments)) or received[-1]
    run.start().hand_over(0)
    assert received[0].returns.flatten()[0].item() == 1 + 0.5 * 6


def test_rewards_are_scaled_and_clipped(make_learner):
    run = make_learner(
        "--rollout=1", "--batch_size=2", "--normalize_returns=False", "--reward_scale=2", "--reward_clip=5",
        "--gamma=0.9",
    )  # fmt: skip
    run.memory.rewards[:2, 0], run.memory.values[:] = (1.5, -40.0), 0.0
    run.memory.terminated[:] = True
    received = []
    prepare = run.learner._prepare
    run.learner._prepare = lambda *arguments: received.append(prepare(*arguments)) or received[-1]
    run.start().hand_over(0, 1)
    assert received[0].returns.flatten().tolist() == [3.0, -5.0]


def test_its_tree_has_the_parts_of_training(make_learner):
    run = make_learner("--save_every_sec=1").start()
    run.hand_over(0, 1)
    blocks = {"prepare_batch", "train", "epoch_init", "bptt_initial", "after_optimizer", "save_checkpoint"}
    assert blocks <= set(run.learner.timing)
    assert run.learner.name == "Learner_0"
    assert run.learner.wait_block() == "wait_batcher"
