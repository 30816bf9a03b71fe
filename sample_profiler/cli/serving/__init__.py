"""What `sample-profiler serve` does: who may look, what is read for them, and what they can have done to a run."""
