"""What captures of several processes left, as one document."""
