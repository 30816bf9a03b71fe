import pytest

from sample_profiler.compat.running.training import Runner, make_runner
from sample_profiler.compat.settings.arguments import default_cfg
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
