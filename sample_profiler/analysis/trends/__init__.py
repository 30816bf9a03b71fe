"""What changed over the time of a run: since when, by how much, and what changed with it."""
