"""What `compare` works with: the runs it makes or finds, and the times in which they got to where they were to."""
