"""A wafer cluster tool as a timed Petri net, and where the time of training on it goes."""
