"""What leaves a run for other programs: its policy as a file, and what it recorded as tables."""
