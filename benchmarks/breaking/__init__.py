"""Mistakes as anybody could make them, for `benchmarks.breakages`: by what they break."""
