import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.compat.networks.normalizers import ObservationNormalizer, RunningMeanStdInPlace
from sample_profiler.compat.settings.arguments import default_cfg
from sample_profiler.model.normalization import RunningMeanStd

ROWS = torch.randn(200, 3, 4, generator=torch.Generator().manual_seed(0)) * 3 + 7


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
@pytest.mark.parametrize("compiled", [False, True])
def test_rows_are_normalized_in_place_by_the_statistics_that_runs_have(compiled):
    normalizer = RunningMeanStdInPlace((3, 4))
    assert normalizer.input_shape == (3, 4)
    normalizer = torch.jit.script(normalizer) if compiled else normalizer
    expected = RunningMeanStd((3, 4))
    for piece in ROWS.split(50):
        expected.update(piece)
        rows = piece.clone()
        assert normalizer(rows) is None
        torch.testing.assert_close(rows, expected.normalize(piece))
    torch.testing.assert_close(normalizer.running_mean, expected.mean)
    torch.testing.assert_close(normalizer.running_var, expected.variance)
    normalizer.eval()
    before = normalizer.running_mean.clone()
    normalizer(rows, denormalize=True)
    torch.testing.assert_close(rows, ROWS[150:], atol=1e-4, rtol=1e-4)
    assert normalizer.running_mean.equal(before)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
@pytest.mark.parametrize("shape", [(1,), ()])
@pytest.mark.parametrize("compiled", [False, True])
def test_rows_of_one_number_may_have_no_dimension_of_their_own(compiled, shape):
    """As returns have: the original's learner normalizes them by statistics of shape (1,)."""
    normalizer = RunningMeanStdInPlace(shape)
    normalizer = torch.jit.script(normalizer) if compiled else normalizer
    rows = ROWS.flatten().clone()
    normalizer(rows)
    assert abs(rows.mean()) < 0.01 and abs(rows.std() - 1) < 0.01
    normalizer.eval()
    normalizer(rows, denormalize=True)
    assert abs(rows.mean() - ROWS.mean()) < 0.01


def test_statistics_of_channels_and_deviations_alone():
    rows = ROWS.clone()
    of_channels = RunningMeanStdInPlace((3, 4), per_channel=True)
    of_channels(rows)
    assert of_channels.running_mean.shape == (3,)
    assert abs(rows.mean()) < 0.1
    rows = ROWS.clone()
    RunningMeanStdInPlace((3, 4), norm_only=True)(rows)
    assert rows.mean() > 1 and abs(rows.std() - 1) < 0.7


def test_observations_are_copies_and_the_buffers_have_the_names_of_the_original():
    cfg = default_cfg()
    cfg.update(obs_subtract_mean=7.0, obs_scale=3.0, normalize_input_keys=["obs"])
    space = spaces.Dict(obs=spaces.Box(-1, 1, (3, 4), np.float32), other=spaces.Box(-1, 1, (2,), np.float32))
    normalizer = ObservationNormalizer(space, cfg)
    given = {"obs": ROWS.clone(), "other": torch.ones(200, 2, dtype=torch.int64)}
    normalized = normalizer(given)
    assert given["obs"].equal(ROWS)
    assert abs(normalized["obs"].mean()) < 0.05 and normalized["other"].equal(torch.ones(200, 2))
    prefix = "running_mean_std.running_mean_std.obs."
    assert set(normalizer.state_dict()) == {f"{prefix}{name}" for name in ("running_mean", "running_var", "count")}
    assert set(normalizer.summaries()) == {"obs_running_mean", "obs_running_std"}
    cfg.normalize_input = False
    assert ObservationNormalizer(space, cfg)(given)["obs"].equal((ROWS - 7) / 3)
