import argparse
import copy
import pickle

import pytest

from sample_profiler.compat.settings.attributes import AttrDict


def test_entries_are_attributes_in_every_habit():
    cfg = AttrDict(rollout=32)
    cfg.num_workers = 8
    cfg["seed"] = 3
    assert (cfg["num_workers"], cfg.seed, cfg.get("gamma", 0.9)) == (8, 3, 0.9)
    assert "seed" in cfg and "gamma" not in cfg
    assert hasattr(cfg, "seed") and not hasattr(cfg, "gamma")
    assert vars(cfg) == dict(cfg) == {"rollout": 32, "num_workers": 8, "seed": 3}
    assert argparse.Namespace(**vars(cfg)).rollout == 32
    del cfg.seed
    assert "seed" not in cfg
    with pytest.raises(AttributeError, match="no option 'gamma'"):
        _ = cfg.gamma


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, AttrDict.copy, lambda cfg: pickle.loads(pickle.dumps(cfg))]
)
def test_copies_are_others(copied):
    cfg = AttrDict(rollout=32)
    other = copied(cfg)
    other.rollout = 64
    assert (cfg.rollout, other["rollout"], type(other)) == (32, 64, AttrDict)
