import pytest

from sample_profiler.compat.running import absent
from sample_profiler.compat.running.absent import PopulationBasedTraining, SerialSampler
from sample_profiler.errors import UsageError


def test_names_may_be_imported_and_looked_for():
    assert not isinstance(object(), SerialSampler)
    assert all(isinstance(getattr(absent, name), type) for name in absent.__all__)


def test_whoever_makes_one_or_derives_from_it_is_told_that_there_is_none():
    with pytest.raises(UsageError, match="there is no population-based training here"):
        PopulationBasedTraining({}, None)
    with pytest.raises(UsageError, match="SerialSampler is not served"):
        type("Mine", (SerialSampler,), {})
