"""Other profilers, begun and ended in a process that runs: cProfile, yappi, pyinstrument, PyTorch's."""
