"""How far a training has come: saved as asked, loaded again, and never lost."""

from __future__ import annotations

import copy
import errno
import math
import time

import numpy as np
import pytest
import torch

from sample_profiler.components.messages import TargetReached
from sample_profiler.errors import CheckpointError
from sample_profiler.runtime.messages import heartbeats
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.storage.checkpoints import CheckpointFolder


def test_a_resumed_run_goes_on_where_it_was(make_learner):
    flags = ("--shuffle_minibatches=True", "--num_batches_per_epoch=2", "--recurrence=1")
    first = make_learner(*flags).start()
    first.hand_over(0, 1, 2, 3)
    first.learner.finish()
    resumed = make_learner(*flags, seed=99).start()
    assert resumed.has_weights(first.weights())
    assert resumed.blueprint.weights[0].version == 2
    assert (resumed.counters.trained_frames[0], resumed.counters.resumed_frames[0]) == (16, 16)
    # Also the optimizer and the order of minibatches: both do the same from here on.
    for run in (first, resumed):
        run.hand_over(0, 1, 2, 3)
    assert resumed.has_weights(first.weights())


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
    assert resumed.has_weights(run.weights())


def test_a_run_resumed_past_its_target_ends_at_once(make_learner):
    run = make_learner().start()
    run.hand_over(0, 1)
    run.learner.finish()
    resumed = make_learner("--train_for_env_steps=8").start()
    assert resumed.of_type(TargetReached) == [TargetReached(0)]
    resumed.learner.finish()
    assert resumed.checkpoints() == run.checkpoints()


def test_a_run_resumed_after_it_was_as_good_as_asked_ends_at_once_and_goes_on_if_more_is_asked(make_learner):
    run = make_learner("--stop_at=5", "--thresholds=3").start()
    run.hand_over(0, 1)
    run.counters.goal_times.note(0, "reward>=3", 8)
    run.counters.goal_times.note(0, "stop at reward>=5", 8)
    run.hand_over(0, 1)
    assert run.counters.trained_frames[0] == 8, "the policy stays as it was then"
    run.learner.finish()
    resumed = make_learner("--stop_at=5", "--thresholds=2,3").start()
    assert resumed.of_type(TargetReached) == [TargetReached(0)]
    reached = {name: resumed.counters.goal_times.find(0, name) for name in ("reward>=2", "reward>=3")}
    assert reached == {"reward>=2": None, "reward>=3": run.counters.goal_times.find(0, "reward>=3")}
    assert make_learner("--stop_at=6").start().of_type(TargetReached) == []


def test_what_was_reached_since_the_last_training_is_saved_too(make_learner):
    run = make_learner("--thresholds=3").start()
    run.hand_over(0, 1)
    run.learner.progress.save()
    run.counters.goal_times.note(0, "reward>=3", 8)
    run.learner.finish()
    assert make_learner("--thresholds=3").start().counters.goal_times.find(0, "reward>=3").frames == 8


def test_a_start_in_which_nothing_was_trained_does_not_count(make_learner):
    make_learner("--thresholds=3").start().learner.finish()
    resumed = make_learner("--thresholds=3").start()
    assert resumed.counters.goal_times.spent_s(0) == pytest.approx((time.monotonic(),) * 2, abs=60)
    plain = make_learner("--thresholds=").start()
    plain.hand_over(0, 1)
    plain.learner.finish()
    assert all(map(math.isnan, make_learner("--thresholds=3").start().counters.goal_times.spent_s(0)))


@pytest.mark.parametrize(
    ("flags", "mismatch"),
    [
        (("--encoder_mlp_layers", "9"), r"\S+ is \[8, 3\] in the checkpoint and \[9, 3\] in the network"),
        (("--use_rnn=False",), r"the checkpoint has \S+core\S+, which the network has not"),
        (("--rnn_num_layers=2",), r"the checkpoint has no \S+core\S+, which the network has"),
    ],
)
def test_a_checkpoint_of_another_network_is_an_error_that_says_why_and_what_to_do(make_learner, flags, mismatch):
    run = make_learner("--use_rnn=True").start()
    run.hand_over(0, 1)
    run.learner.finish()
    cure = r"use the flags and the registered encoder.*another --experiment; --restart_behavior=overwrite"
    with pytest.raises(CheckpointError, match=rf"is not of this network \(.*{mismatch}.*\): {cure}"):
        make_learner("--use_rnn=True", *flags)


@pytest.mark.parametrize("flags", [("--encoder_mlp_layers", "9"), ("--use_rnn=False",), ("--rnn_num_layers=2",)])
@pytest.mark.parametrize("kind", ["latest", "best"])
def test_a_checkpoint_in_which_nothing_was_trained_is_no_obstacle_to_another_network(
    make_learner, tmp_path, caplog, flags, kind
):
    first = make_learner("--use_rnn=True").start()
    untrained = {name: (tmp_path / "checkpoint_p0" / name).read_bytes() for name in first.checkpoints()}
    fresh = make_learner("--use_rnn=True", *flags, folder=tmp_path / "elsewhere").weights()
    run = make_learner("--use_rnn=True", *flags, f"--load_checkpoint_kind={kind}").start()
    assert run.has_weights(fresh), "none of the weights that would have fitted"
    if kind == "latest":  # there is no best one, so nothing is read
        (record,) = [record for record in caplog.records if "begins anew" in record.message]
        assert "not of this network" in record.message
        for name, content in untrained.items():
            assert (tmp_path / "checkpoint_p0" / f"{name}.untrained").read_bytes() == content
    assert run.checkpoints() == list(untrained)
    run.hand_over(0, 1)
    run.learner.finish()
    assert make_learner("--use_rnn=True", *flags).has_weights(run.weights())


def test_an_untrained_checkpoint_that_fits_is_gone_on_with(make_learner):
    first = make_learner(seed=1).start()
    assert make_learner(seed=2).has_weights(first.weights())


@pytest.mark.parametrize("others", ["checkpoint_000000007_99.pth", "best_000000007_99_reward_1.000.pth",
                                    "milestones/checkpoint_000000007_99.pth"])  # fmt: skip
def test_an_untrained_checkpoint_beside_trained_ones_is_not_begun_anew(make_learner, tmp_path, others):
    make_learner().start()
    other = tmp_path / "checkpoint_p0" / others
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="not of this network"):
        make_learner("--rnn_size=9")


def test_an_untrained_checkpoint_that_is_damaged_is_no_obstacle(make_learner, tmp_path, caplog):
    run = make_learner().start()
    (path,) = (tmp_path / "checkpoint_p0").glob("*.pth")
    path.write_bytes(path.read_bytes()[:1000])
    anew = make_learner().start()
    assert anew.has_weights(run.weights())
    assert anew.checkpoints() == [path.name]
    assert "no checkpoint can be read, but nothing had been trained" in caplog.text


def test_a_checkpoint_that_counts_frames_without_a_step_is_not_untrained(make_learner):
    run = make_learner().start()
    run.memory.inactive[:2] = True
    run.hand_over(0, 1)
    run.learner.progress._steps_saved = -1
    run.learner.finish()
    assert run.checkpoints() == ["checkpoint_000000000_0.pth", "checkpoint_000000000_8.pth"]
    with pytest.raises(CheckpointError, match="not of this network"):
        make_learner("--rnn_size=9")


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
    with pytest.raises(CheckpointError, match="No space left on device; checkpoints before it are as they were"):
        run.learner.finish()
    full_disk["is_full"] = False
    for callback in timers.values():
        callback()
    assert "checkpoint_000000001_8.pth" in run.checkpoints()
    assert run.checkpoints("best") == ["best_000000001_8_reward_5.000.pth"]


def timers_of(run):
    return {timer.interval_s: timer.callback for timer in run.learner.timers()}


SAVES_ALL = ("--save_every_sec=9", "--save_milestones_sec=8", "--save_best_every_sec=7", "--save_best_after=0")


def tensors_in(state):
    if isinstance(state, torch.Tensor):
        return [state]
    values = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    return [tensor for value in values for tensor in tensors_in(value)]


def test_the_best_is_written_as_it_was_also_after_a_try_that_failed(make_learner, full_disk):
    run = make_learner(*SAVES_ALL).start()
    run.hand_over(0, 1)
    run.counters.metric[0] = 5.0
    trained = run.learner._trainer.state_dict
    at_its_moment = copy.deepcopy(trained())
    full_disk["is_full"] = True
    timers_of(run)[7]()
    full_disk["is_full"] = False
    run.hand_over(2, 3)
    run.learner.progress.save_best()
    saved = load_best(run)
    for part in ("model", "optimizer"):
        torch.testing.assert_close(tensors_in(saved[part]), tensors_in(at_its_moment[part]), rtol=0, atol=0)
    assert any(
        not torch.equal(*pair) for pair in zip(tensors_in(saved["model"]), tensors_in(trained()["model"]), strict=True)
    )


def test_a_best_that_is_written_at_once_is_not_copied(make_learner, monkeypatch):
    run = make_learner(*SAVES_ALL).start()
    run.hand_over(0, 1)
    run.counters.metric[0] = 5.0
    monkeypatch.setattr(copy, "deepcopy", lambda _: pytest.fail("copied"))
    timers_of(run)[7]()
    assert run.checkpoints("best") == ["best_000000001_8_reward_5.000.pth"]


def test_weights_that_a_step_has_spoiled_are_not_saved(make_learner, caplog):
    """The step itself was one like any other."""
    run = make_learner(*SAVES_ALL, "--learning_rate=1e30").start()
    run.hand_over(0, 1)
    assert run.blueprint.weights[0].version == 1
    assert not run.learner._trainer.steps.is_suspect
    run.counters.metric[0] = 5.0
    for callback in timers_of(run).values():
        callback()
    caplog.clear()
    run.learner.finish()
    assert run.checkpoints() == ["checkpoint_000000000_0.pth"]
    assert run.checkpoints("best") == []
    assert "The weights of policy 0 after 1 optimizer steps are not saved" in caplog.text
    resumed = make_learner("--learning_rate=1e-3").start()
    resumed.hand_over(0, 1)
    resumed.learner.finish()
    assert resumed.checkpoints()[-1] == "checkpoint_000000001_8.pth"


def test_weights_are_not_saved_from_a_step_that_was_left_out_to_one_that_was_not(make_learner, caplog):
    run = make_learner(*SAVES_ALL).start()
    run.hand_over(0, 1)
    run.learner._trainer.steps.reject("the gradients of a step are not finite")
    run.counters.metric[0] = 5.0
    for callback in timers_of(run).values():
        callback()
    assert run.checkpoints() == ["checkpoint_000000000_0.pth"]
    assert run.checkpoints("best") == []
    run.hand_over(2, 3)
    for callback in timers_of(run).values():
        callback()
    assert "checkpoint_000000002_16.pth" in run.checkpoints()
    assert run.checkpoints("best") == ["best_000000002_16_reward_5.000.pth"]


@pytest.mark.parametrize("interval_s", [9, 8, 7], ids=["latest", "milestone", "best"])
def test_there_are_signs_of_life_while_the_file_system_lets_a_checkpoint_wait(make_learner, monkeypatch, interval_s):
    run = make_learner(*SAVES_ALL).start()
    run.hand_over(0, 1)
    run.counters.metric[0] = 5.0
    save, heard = torch.save, []

    def save_late(state, file):
        end_s = time.monotonic() + 30
        while not heard and time.monotonic() < end_s:
            time.sleep(0.01)
            heard.extend(run.of_type(Heartbeat))
        save(state, file)

    monkeypatch.setattr(torch, "save", save_late)
    monkeypatch.setattr(heartbeats, "_PULSE_S", 0.01)
    run.of_type(Heartbeat)
    next(timer for timer in run.learner.timers() if timer.interval_s == interval_s).callback()
    assert heard


def test_a_run_that_cannot_save_at_all_does_not_begin(make_learner, full_disk):
    full_disk["is_full"] = True
    with pytest.raises(CheckpointError, match="cannot write the checkpoint"):
        make_learner().start()


def test_the_best_by_another_metric_is_none_by_this_one(make_learner):
    flags = ("--save_best_every_sec=5", "--save_best_after=0")
    run = make_learner(*flags).start()
    save_best(run, 500.0)
    run.counters.add_metric(0, 500.0)
    run.hand_over(0, 1)
    run.learner.finish()
    resumed = make_learner(*flags, "--save_best_metric=true_objective").start()
    assert resumed.counters.recent_metrics(0).tolist() == []
    save_best(resumed, 0.5)
    assert resumed.checkpoints("best") == ["best_000000001_8_true_objective_0.500.pth"]
    resumed.hand_over(0, 1)
    resumed.learner.finish()
    again = make_learner(*flags, "--save_best_metric=true_objective").start()
    save_best(again, 0.4)
    assert again.checkpoints("best") == ["best_000000001_8_true_objective_0.500.pth"]


def test_the_latest_episodes_go_on_over_a_resume(make_learner):
    run = make_learner("--stats_avg=3").start()
    for value in (1.0, 2.0, 3.0, 4.5):
        run.counters.add_metric(0, value)
    run.hand_over(0, 1)
    run.learner.finish()
    resumed = make_learner("--stats_avg=3").start()
    assert resumed.counters.recent_metrics(0).tolist() == [2.0, 3.0, 4.5]
    resumed.counters.add_metric(0, 6.0)
    assert resumed.counters.recent_metrics(0).tolist() == [3.0, 4.5, 6.0]
    assert make_learner("--stats_avg=2").counters.recent_metrics(0).tolist() == [3.0, 4.5]


@pytest.fixture
def looks_after_datasets(make_learner):
    """Return a function that makes a run that looks for the best policy after each dataset, by a metric of its own."""

    class Course:
        is_offered = True

        def metric(self):
            return self.value

        def take(self):
            return None

    def make(metric=7.0):
        run = make_learner("--save_best_every_sec=5", "--save_best_after=0").start()
        run.course = Course()
        run.course.value = metric
        assert run.learner.progress.join(run.course) is None
        return run

    return make


def test_where_that_is_wanted_the_best_is_looked_for_after_each_dataset_and_not_by_the_clock(looks_after_datasets):
    run = looks_after_datasets()
    save_best(run, 9.0)
    assert run.checkpoints("best") == []
    run.hand_over(0, 1)
    assert run.checkpoints("best") == [], "written by the clock"
    save_best(run, 9.0)
    assert run.checkpoints("best") == ["best_000000001_8_reward_7.000.pth"]


def load_best(run):
    (name,) = run.checkpoints("best")
    return torch.load(run.blueprint.run_folder / "checkpoint_p0" / name, weights_only=True)


def test_the_best_is_written_as_it_was_after_its_dataset(looks_after_datasets):
    run = looks_after_datasets()
    run.hand_over(0, 1)
    expected = {name: value.clone() for name, value in run.learner._trainer.model.state_dict().items()}
    run.course.value = 6.0
    run.hand_over(0, 1)
    save_best(run, 9.0)
    state = load_best(run)
    assert (state["frames"], state["optimizer_steps"], state["best_metric"]) == (8, 1, 7.0)
    assert all(torch.equal(state["model"][name], value) for name, value in expected.items())
    assert run.checkpoints("best") == ["best_000000001_8_reward_7.000.pth"]


def test_the_latest_checkpoint_knows_of_the_best_which_is_written_before_it(looks_after_datasets):
    run = looks_after_datasets()
    run.hand_over(0, 1)
    run.learner.finish()
    assert run.checkpoints("best") == ["best_000000001_8_reward_7.000.pth"]
    resumed = looks_after_datasets(metric=7.0)
    resumed.hand_over(0, 1)
    resumed.learner.finish()
    assert resumed.checkpoints("best") == ["best_000000001_8_reward_7.000.pth"]


def test_the_best_outlives_a_training_step_that_failed(looks_after_datasets, monkeypatch):
    run = looks_after_datasets()
    run.hand_over(0, 1)
    monkeypatch.setattr(run.learner, "_publish", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.hand_over(2, 3)
    run.learner.finish()
    assert run.checkpoints("best") == ["best_000000001_8_reward_7.000.pth"]


def test_the_latest_checkpoint_does_not_know_of_a_best_that_could_not_be_written(looks_after_datasets, monkeypatch):
    run = looks_after_datasets()
    run.hand_over(0, 1)

    def refuse(*_):
        raise CheckpointError("cannot write the best")

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFolder, "save_best", refuse)
        with pytest.raises(CheckpointError, match="the best"):
            run.learner.finish()
    assert "checkpoint_000000001_8.pth" in run.checkpoints()
    resumed = looks_after_datasets(metric=5.0)
    resumed.hand_over(0, 1)
    save_best(resumed, 9.0)
    assert resumed.checkpoints("best") == ["best_000000002_16_reward_5.000.pth"]
