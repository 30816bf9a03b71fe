"""Environments as Sample Factory's code makes them, by the contract of this package."""
