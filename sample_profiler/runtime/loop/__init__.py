"""The loop that every process runs, whose turn it is in it, and what it records."""
