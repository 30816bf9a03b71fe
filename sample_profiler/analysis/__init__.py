"""What recordings mean: from a Session to accounts of time. Nothing here prints."""
