"""Runs as Sample Factory's code starts them: trained, watched and played by this package."""
