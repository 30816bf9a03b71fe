"""What the `train_*` commands do, from the command line to the exit status."""
