"""Processes, event loops, channels, shared memory and supervision. Knows nothing of reinforcement learning."""
