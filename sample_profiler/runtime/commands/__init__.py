"""What a process can be asked for while it runs: by the Runner, and over a socket by other programs."""
