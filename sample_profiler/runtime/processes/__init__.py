"""Child processes: started, watched from both sides, ended, and cleaned up after."""
