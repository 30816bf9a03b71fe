"""Sessions: all that is known of a run as plain data, read from a folder, checked and written."""
