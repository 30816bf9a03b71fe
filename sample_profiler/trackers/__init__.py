"""Weights & Biases, Trackio and MLflow, told of a run by a process beside it that reads what the run writes anyway."""
