"""Environments of one's own: small examples to start from."""
