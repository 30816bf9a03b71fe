"""`sample-profiler tune`: the best settings for a machine, from short runs in turn."""
