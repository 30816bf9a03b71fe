"""A run: its parts laid out, put together in one of two wirings, watched, replaced and ended."""
