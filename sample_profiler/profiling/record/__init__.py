"""Record files: their layout, and reading them, also while their process goes on or after it was killed."""
