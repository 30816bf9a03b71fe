"""Captures that begin and end with rollouts: what may be asked of them, and their traces."""
