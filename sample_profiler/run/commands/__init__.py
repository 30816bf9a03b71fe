"""What components of a live run can be asked for, by the Runner, its observers and other programs."""
