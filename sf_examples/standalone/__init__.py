"""The profiler alone: in training scripts that use nothing else of this package."""
