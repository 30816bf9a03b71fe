"""`sample-profiler doctor`: an environment alone, from the command line to what is said of it."""
