"""What Sample Factory's code reads its options from, and how they become those of a run here."""
