"""Environment families to train on, one folder each, with a script that trains."""
