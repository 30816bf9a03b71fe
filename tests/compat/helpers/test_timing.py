import pickle

import pytest

from sample_profiler.compat.helpers.timing import Timing


def test_values_are_attributes_as_well():
    timing = Timing("Mine")
    with timing.timeit("experience"), timing.add_time("step"):
        pass
    timing.resets = 1e-9
    timing.resets += 1
    assert timing.experience == timing["experience"] > 0
    assert timing.resets > 1 and "step" in str(timing)
    assert not hasattr(timing, "nothing")
    assert pickle.loads(pickle.dumps(timing)).step == timing["step"]
    with pytest.raises(AttributeError, match="no block 'nothing' has been measured"):
        _ = timing.nothing
