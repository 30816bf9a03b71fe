"""What runs at every block: the recorder, compiled and in pure Python, and which of the two it is."""
