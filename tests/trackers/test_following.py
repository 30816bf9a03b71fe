"""A tracker is told of all that a run writes, once, however often it, its tracker or the run breaks off."""

from __future__ import annotations

import pytest

from sample_profiler.trackers import following
from sample_profiler.trackers.following import Follower
from tests.trackers.conftest import Remembering, write_points


@pytest.fixture
def follow(monkeypatch):
    """Return what follows a run: what it was told, whether it was told all, and of what there were warnings."""
    monkeypatch.setattr(following, "_INTERVAL_S", 0.0)

    def follow(folder, during=(), make=None):
        told, informed, warned, events = [], [], [], iter(during)

        def is_over(_):
            try:
                next(events)()
            except StopIteration:
                return True
            return False

        def remember(run, files):
            assert files.is_dir()
            return Remembering(run, told)

        follower = Follower(folder, "mlflow", make(told) if make else remember, informed.append, warned.append)
        is_complete = follower.follow(is_over)
        assert not folder.tracking_files("mlflow").exists()
        return told, is_complete, informed, warned

    return follow


def steps_of(told):
    return [what.step for kind, what in told if kind == "point"]


def test_points_come_as_they_are_written_and_results_at_the_end(make_run, follow):
    folder = make_run(steps=[[100, 200]])
    told, is_complete, informed, warned = follow(folder, [lambda: None, lambda: write_points(folder, 0, [300])])
    assert is_complete and warned == [] and informed == ["at doom"]
    assert [kind for kind, _ in told] == ["begin", "point", "point", "point", "files", "close"]
    assert steps_of(told) == [100, 200, 300]
    assert told[1][1].values == {"reward/reward": 50.0, "len/len": 200.0}
    assert told[0][1].config["env"] == "CartPole-v1"
    assert told[-1][1] == "killed", "there is no session"


def test_a_run_that_is_resumed_is_the_same_one_and_is_told_of_once(make_run, follow):
    folder = make_run(steps=[[100, 200]])
    (_, first), *_ = follow(folder)[0]
    write_points(folder, 0, [300])
    (_, second), *rest = follow(folder)[0]
    assert (first.earlier_id, second.earlier_id) == ("", first.id)
    assert (second.id, second.num_points) == (first.id, 2)
    assert steps_of(rest) == [300]


def test_runs_of_one_name_are_different_ones(make_run, follow):
    names = [follow(make_run(f"{place}/same run"))[0][0][1].id for place in ("a", "b")]
    assert names[0] != names[1]
    assert all(name.startswith("same_run_") for name in names), "as it may be in an address"


def test_figures_of_several_policies_have_names_of_their_own(make_run, follow):
    told, *_ = follow(make_run(steps=[[100], [50, 60]]))
    names = [(what.step, *what.values) for kind, what in told if kind == "point"]
    assert names == [
        (100, "policy_0/reward/reward", "policy_0/len/len"),
        (50, "policy_1/reward/reward", "policy_1/len/len"),
        (60, "policy_1/reward/reward", "policy_1/len/len"),
    ]


def test_who_can_be_called_is_not_told(make_run, follow):
    told, *_ = follow(make_run("doom", "--alert_webhook=https://a/b/SECRET", "--alert_command=call SECRET"))
    assert told[0][1].config["track"] == ["tensorboard"]
    assert "SECRET" not in repr(told)


class Failing(Remembering):
    """A tracker that fails every other time."""

    num_calls = 0

    def log(self, points):
        type(self).num_calls += 1
        if self.num_calls % 2:
            raise ConnectionError("nobody is there")
        super().log(points)


def test_a_tracker_that_fails_is_told_again_until_it_takes_it(make_run, follow):
    folder = make_run(steps=[[100, 200]])
    during = [lambda: None, lambda: None, lambda: write_points(folder, 0, [300]), lambda: None]
    told, is_complete, _, warned = follow(folder, during, lambda told: lambda run, _: Failing(run, told))
    assert is_complete
    assert steps_of(told) == [100, 200, 300]
    assert warned == ["ConnectionError: nobody is there"], "not one each time"


def test_a_tracker_that_is_never_reached_takes_nothing(make_run, follow):
    def refuse(*_):
        raise PermissionError("log in first")

    folder = make_run(steps=[[100]])
    told, is_complete, informed, warned = follow(folder, [lambda: None] * 20, lambda _: refuse)
    assert (told, is_complete, informed) == ([], False, [])
    assert warned == ["PermissionError: log in first"] * 2
    assert steps_of(follow(folder)[0]) == [100], "the next one begins where this one did not"


def test_the_second_of_two_pieces_that_fails_is_the_only_one_told_again(make_run, follow):
    folder = make_run(steps=[[100], [50]])

    class FailingOnce(Remembering):
        has_failed = False

        def log(self, points):
            if points and points[0].step == 50 and not self.has_failed:
                self.has_failed = True
                raise ConnectionError
            super().log(points)

    told, is_complete, *_ = follow(folder, [lambda: None], lambda told: lambda run, _: FailingOnce(run, told))
    assert is_complete and steps_of(told) == [100, 50]
