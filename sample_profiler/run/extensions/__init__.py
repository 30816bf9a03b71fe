"""What a script adds to its run beside observers: slots for signals, and components of its own."""
