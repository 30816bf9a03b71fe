import pytest

from sample_profiler.compat.running import training
from sample_profiler.compat.running.observers import AlgoObserver
from sample_profiler.compat.running.summaries import finish_wandb, init_wandb
from sample_profiler.compat.running.training import Runner, make_runner
from sample_profiler.compat.settings.arguments import default_cfg, parse_full_cfg, parse_sf_args
from sample_profiler.errors import UsageError


def test_the_options_of_a_run_are_those_that_its_maker_was_given_and_changes_count(tmp_path):
    cfg = default_cfg(env="maze")
    cfg.train_dir = str(tmp_path)
    merged, runner = make_runner(cfg)
    assert runner.cfg is merged
    merged.with_pbt = True
    assert runner.init() == 1
    merged.with_pbt = False
    runner.status = 0
    assert runner.init() == 0


def test_a_run_is_made_without_make_runner_too():
    cfg = default_cfg(env="maze")
    cfg.num_policies = 2
    runner = Runner(cfg)
    assert runner.cfg is cfg and runner.policy_lag == [{}, {}]
    with pytest.raises(UsageError, match="register_msg_handler"):
        runner.register_msg_handler("stats", print)


def test_handlers_of_messages_are_lists_by_key_and_only_episodes_are_told_of():
    runner = Runner(default_cfg(env="maze"))
    runner.policy_msg_handlers["episodic"].append(print)
    runner.register_policy_msg_handler("episodic", len)
    runner.register_episodic_stats_handler(max)
    assert runner._handlers == [print, len, max]
    for refused in (
        lambda: runner.policy_msg_handlers["train"],
        lambda: runner.register_policy_msg_handler("train", max),
    ):
        with pytest.raises(UsageError, match="no messages 'train' of policies"):
            refused()


def test_what_cannot_be_run_is_said_when_it_is_looked_at(caplog):
    cfg = default_cfg(env="maze")
    cfg.rollout = -3
    assert Runner(cfg).init() == 1
    assert "--rollout" in caplog.text


@pytest.mark.parametrize(("argv", "timeout"), [([], "1800.0"), (["--hang_timeout=7"], "7")])
def test_observers_of_theirs_may_take_their_time(monkeypatch, argv, timeout):
    """They play whole evaluations in the process of the Runner."""
    given = []
    monkeypatch.setattr(training, "train", lambda argv, **options: given.append((argv, options["defaults"])) or 0)
    cfg = parse_full_cfg(parse_sf_args(["--env=maze", *argv])[0], ["--env=maze", *argv])
    runner = Runner(cfg)
    assert runner.run() == 0 and "hang_timeout" not in given[0][1]
    runner.register_observer(AlgoObserver())
    assert runner.run() == 0
    words, defaults = given[1]
    flags = dict(word.removeprefix("--").split("=", 1) for word in words)
    assert str(flags.get("hang_timeout", defaults.get("hang_timeout"))) == timeout


def test_weights_and_biases_are_not_begun_where_nobody_wants_them():
    init_wandb(cfg := default_cfg(env="maze"))
    finish_wandb(cfg)
    cfg.with_wandb = True
    with pytest.raises(UsageError, match="shown there by themselves"):
        init_wandb(cfg)
