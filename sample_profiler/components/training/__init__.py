"""What the Learner works with: datasets in pieces, and how far its training has come."""
