"""`sample-profiler capture`: a capture of a running run, from the request to the document."""
