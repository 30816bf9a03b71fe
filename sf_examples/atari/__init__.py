"""Atari: the games of the Arcade Learning Environment."""
