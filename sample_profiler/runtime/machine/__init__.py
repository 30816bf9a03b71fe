"""The machine and what processes take of it: cores, memory, open files."""
