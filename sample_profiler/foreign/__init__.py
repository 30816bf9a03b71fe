"""Runs of Sample Factory 2 as runs of this package: what is in their folders is read as data, and written anew."""
