"""What a run knows of itself: figures, record files of its processes, the session at its end."""
