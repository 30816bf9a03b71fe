"""Command lines: the only place that parses arguments for people and prints."""
