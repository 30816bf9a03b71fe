"""Shared-memory trajectories, policy weights and checkpoints."""
