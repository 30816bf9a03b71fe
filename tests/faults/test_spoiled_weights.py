"""Training that breaks its own weights: what it leaves can be gone on with."""

from __future__ import annotations


def test_a_run_whose_weights_break_can_be_gone_on_with(begin, capsys):
    flags = ("--env=stroll", "--batch_size=64", "--save_best_every_sec=0.01")
    assert begin(*flags, "--learning_rate=1e30", "--save_every_sec=0.01", "--train_for_env_steps=100000") == 1
    text = capsys.readouterr().out
    assert "10th time in a row" in text and "The last checkpoint is sound" in text
    assert begin(*flags, "--learning_rate=1e-4", "--train_for_env_steps=2000") == 0
