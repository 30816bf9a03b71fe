"""Processes beside a run that tell trackers of it, and the command that does so afterwards."""
