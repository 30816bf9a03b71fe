"""What tests of components begin with."""

from __future__ import annotations

from tests.components.vector_runs import make_vector_run as make_vector_run
from tests.small_runs import _restore_timing as _restore_timing
from tests.small_runs import make_blueprint as make_blueprint
from tests.small_runs import make_component as make_component
from tests.small_runs import make_env as make_env
from tests.small_runs import make_learner as make_learner
from tests.small_runs import make_run as make_run
from tests.small_runs import make_runner as make_runner
from tests.small_runs import make_vector as make_vector
from tests.small_runs import observation_space as observation_space
from tests.small_runs import runner as runner
