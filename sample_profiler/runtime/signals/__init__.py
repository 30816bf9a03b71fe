"""Signals that interrupt, end, suspend and resume a process."""
