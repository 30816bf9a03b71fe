"""A trained policy as a file that other programs run: without this package, and without PyTorch."""
