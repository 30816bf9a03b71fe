"""Which components a run has, who talks to whom, and how each is made in its process."""
