"""The Collector: the sampling side of a run, for people with a training loop of their own."""
