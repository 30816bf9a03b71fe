"""Timers for code that has no Timing at hand: one tree for each thread, gauges, and their JSON."""
