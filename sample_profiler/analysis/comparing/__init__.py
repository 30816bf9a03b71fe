"""Runs beside runs: tests of paired throughputs, costs of blocks, times to a return."""
