from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import ObservationOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model.normalization import ObservationNormalizer, RunningMeanStd

VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (3, 40, 50), np.uint8)


def test_moments_by_hand():
    statistics = RunningMeanStd()
    statistics.update(torch.tensor([[3.0, 5.0]]))
    # Samples 0 ± 1 (what it starts with: mean 0, variance 1), 3 and 5: mean 8/3;
    # variance = (1 + 9 + 25) / 3 - (8/3)^2 = 35/3 - 64/9 = 41/9.
    assert statistics.mean.item() == pytest.approx(8 / 3)
    assert statistics.variance.item() == pytest.approx(41 / 9)
    assert statistics.count.item() == 3


def test_moments_in_pieces_are_those_of_the_whole():
    samples = 1000 + torch.randn(500, 3, dtype=torch.float64)
    whole, pieces = RunningMeanStd((3,)), RunningMeanStd((3,))
    whole.update(samples)
    for piece in samples.split(37):
        pieces.update(piece)
    pieces.update(samples[:0])
    torch.testing.assert_close(pieces.mean, whole.mean)
    torch.testing.assert_close(pieces.variance, whole.variance)
    prior_and_samples = torch.cat([torch.zeros(1, 3), samples])
    torch.testing.assert_close(whole.mean, prior_and_samples.mean(0))


def test_moments_of_many_bytes_are_exact():
    normalizer = ObservationNormalizer({"obs": spaces.Box(0, 255, (2,), np.uint8)}, ObservationOptions())
    samples = torch.randint(250, 256, (100_000, 2), dtype=torch.uint8)
    normalizer.update({"obs": samples})
    mean = samples.double().sum(0) / 100_001
    variance = (samples.double().square().sum(0) + 1) / 100_001 - mean.square()
    statistics = normalizer.state_dict()
    torch.testing.assert_close(statistics["entries.0.statistics.mean"], mean, atol=0, rtol=1e-10)
    torch.testing.assert_close(statistics["entries.0.statistics.variance"], variance, atol=0, rtol=1e-6)


def test_normalize_and_denormalize_undo_each_other_within_the_clip():
    statistics = RunningMeanStd()
    statistics.update(10 + 3 * torch.randn(10_000))
    samples = 10 + 3 * torch.randn(4, 5)
    torch.testing.assert_close(statistics.denormalize(statistics.normalize(samples)), samples)
    assert statistics.normalize(torch.tensor([1e6, -1e6])).tolist() == [5, -5]
    furthest = 10 + 5 * 3
    assert statistics.denormalize(torch.tensor(1e6)).item() == pytest.approx(furthest, rel=0.05)


def test_returns_that_never_change_stay_finite():
    statistics = RunningMeanStd()
    for _ in range(100):
        statistics.update(torch.zeros(1000))
    assert torch.isfinite(statistics.normalize(torch.tensor([0.0, 1.0]))).all()


@pytest.mark.parametrize("num_rows", [1, 7, 300], ids=["one", "one piece", "several pieces"])
def test_images_are_scaled_and_normalized_in_one_go(num_rows):
    normalizer = ObservationNormalizer({"obs": IMAGE}, ObservationOptions(obs_subtract_mean=10.0, obs_scale=255.0))
    seen = torch.randint(0, 256, (300, 3, 40, 50), dtype=torch.uint8)
    normalizer.update({"obs": seen})
    images = torch.randint(0, 256, (num_rows, 3, 40, 50), dtype=torch.uint8)
    before = images.clone()

    scaled = (seen.double() - 10) / 255
    # What it starts with counts as one sample, which adds 0 to the sum and 1 to the sum of squares.
    mean = scaled.sum(0) / 301
    variance = (scaled.square().sum(0) + 1) / 301 - mean.square()
    expected = (((images.double() - 10) / 255 - mean) / (variance + 1e-5).sqrt()).clamp(-5, 5).float()

    normalized = normalizer({"obs": images})["obs"]
    assert normalized.dtype == torch.float32
    torch.testing.assert_close(normalized, expected, atol=1e-4, rtol=1e-4)
    assert torch.equal(images, before)


def test_values_far_off_are_clipped_and_inputs_stay_as_they_are():
    normalizer = ObservationNormalizer({"obs": VECTOR}, ObservationOptions())
    observation = torch.tensor([[1e9, -1e9, 0.0]])
    assert normalizer({"obs": observation})["obs"].tolist() == [[5, -5, 0]]
    assert observation.tolist() == [[1e9, -1e9, 0.0]]


def test_only_obs_is_scaled_and_only_named_keys_are_normalized():
    options = ObservationOptions(obs_scale=2.0, normalize_input_keys=("health",))
    normalizer = ObservationNormalizer({"obs": VECTOR, "health": VECTOR, "ammo": VECTOR}, options)
    observations = {key: torch.full((10, 3), 4.0) for key in ("obs", "health", "ammo")}
    normalizer.update(observations)
    normalized = normalizer(observations)
    assert normalized["obs"].unique().tolist() == [2]
    assert normalized["ammo"].unique().tolist() == [4]
    # Ten samples of 4 and the one it starts with: mean 40/11, variance (160 + 1) / 11 - (40/11)^2 = 171/121.
    assert normalized["health"][0, 0].item() == pytest.approx((4 - 40 / 11) / np.sqrt(171 / 121 + 1e-5), rel=1e-5)


def test_without_normalization_numbers_only_become_floats():
    normalizer = ObservationNormalizer({"obs": IMAGE}, ObservationOptions(normalize_input=False))
    images = torch.randint(0, 256, (2, 3, 40, 50), dtype=torch.uint8)
    normalizer.update({"obs": images})
    assert torch.equal(normalizer({"obs": images})["obs"], images.float())


def test_discrete_observations_become_one_hot():
    normalizer = ObservationNormalizer({"obs": spaces.Discrete(3, start=5)}, ObservationOptions())
    normalizer.update({"obs": torch.tensor([5])})
    assert normalizer({"obs": torch.tensor([6, 5, 7])})["obs"].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_of_several_discrete_numbers_each_is_one_hot():
    space = spaces.MultiDiscrete([[2], [3]], np.int8, start=[[0], [-1]])
    normalizer = ObservationNormalizer({"obs": space}, ObservationOptions())
    normalizer.update({"obs": torch.tensor([[[0], [0]]])})
    observations = torch.tensor([[[0], [-1]], [[1], [0]], [[0], [1]]], dtype=torch.int8)
    assert normalizer({"obs": observations})["obs"].tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 0, 0, 0, 1]]
    assert "entries.0.starts" not in normalizer.state_dict()


def test_copying_tensors_of_the_state_dict_copies_the_normalization():
    space = {"obs": VECTOR, "with.dot": VECTOR, "values": VECTOR}
    source, target = (ObservationNormalizer(space, ObservationOptions()) for _ in range(2))
    source.update({key: 3 + torch.randn(100, 3) for key in space})
    observations = {key: torch.randn(2, 3) for key in space}
    # As through shared memory: nobody tells the target.
    for ours, theirs in zip(target.state_dict().values(), source.state_dict().values(), strict=True):
        ours.copy_(theirs)
    for key, value in source(observations).items():
        assert torch.equal(target(observations)[key], value)


def test_loading_a_checkpoint_keeps_the_options_of_this_run():
    old, new = (ObservationNormalizer({"obs": VECTOR}, ObservationOptions(obs_scale=s)) for s in (1.0, 2.0))
    old.update({"obs": 3 + torch.randn(100, 3)})
    new.load_state_dict(old.state_dict())
    observation = torch.randn(5, 3)
    torch.testing.assert_close(new({"obs": 2 * observation})["obs"], old({"obs": observation})["obs"])


def test_statistics_survive_inference_mode_and_copies():
    normalizer = ObservationNormalizer({"obs": VECTOR}, ObservationOptions())
    with torch.inference_mode():
        normalizer({"obs": torch.randn(2, 3)})
    clone = copy.deepcopy(normalizer)
    normalizer.update({"obs": torch.randn(20, 3)})
    assert clone.state_dict()["entries.0.statistics.count"].item() == 1
    assert normalizer.state_dict()["entries.0.statistics.count"].item() == 21


def test_options_that_name_missing_observations_are_refused_together():
    options = ObservationOptions(obs_scale=255.0, normalize_input_keys=("img", "image"))
    with pytest.raises(ConfigError) as caught:
        ObservationNormalizer({"image": IMAGE}, options)
    assert len(caught.value.problems) == 2
    assert "'img'" in str(caught.value)
    assert "--obs_scale=255.0" in str(caught.value)


def test_a_number_that_is_not_finite_does_not_stay_in_the_statistics():
    statistics = RunningMeanStd((2,))
    statistics.update(torch.tensor([[1.0, 1.0], [3.0, 5.0]]))
    before = statistics.mean.clone(), statistics.variance.clone()
    statistics.update(torch.tensor([[torch.nan, 2.0], [1.0, torch.inf]]))
    torch.testing.assert_close((statistics.mean, statistics.variance), before)
    statistics.update(torch.tensor([[2.0, 3.0]]))
    assert statistics.stddev.isfinite().all()
