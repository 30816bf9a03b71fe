"""The six components of a run, what they say to each other, and how they are wired."""
