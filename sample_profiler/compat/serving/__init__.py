"""What stands behind the name `sample_factory`: which of its names are served, and by what."""
