"""The programs that play a trained policy: a few episodes to be watched, or many at once."""
