"""The RolloutWorker: groups of environments that it steps, and inference of its own if it has any."""
