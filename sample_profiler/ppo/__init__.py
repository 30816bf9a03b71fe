"""Advantages, losses, schedules, optimizers: tensors in, tensors out. Knows no processes and no files."""
