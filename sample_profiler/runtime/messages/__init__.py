"""How processes tell each other something: channels, shared memory, signs of life."""
