"""Small things that Sample Factory's code imports from its utilities."""
