"""The six components of a run, and what they say to each other."""
