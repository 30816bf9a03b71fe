"""Timelines: what every process did when, as one trace."""
