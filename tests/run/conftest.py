"""What tests of runs begin with."""

from __future__ import annotations

from tests.doubles.small_runs import _restore_timing as _restore_timing
from tests.doubles.small_runs import make_blueprint as make_blueprint
from tests.doubles.small_runs import make_component as make_component
from tests.doubles.small_runs import make_env as make_env
from tests.doubles.small_runs import make_learner as make_learner
from tests.doubles.small_runs import make_run as make_run
from tests.doubles.small_runs import make_runner as make_runner
from tests.doubles.small_runs import make_vector as make_vector
from tests.doubles.small_runs import observation_space as observation_space
from tests.doubles.small_runs import runner as runner
