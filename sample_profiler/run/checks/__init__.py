"""What is found out before a run begins and anything is overwritten: whether it fits environment and machine."""
