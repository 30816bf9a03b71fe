"""Arithmetic of our own for networks on processors."""
