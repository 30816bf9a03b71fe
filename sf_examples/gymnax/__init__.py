"""gymnax: classic control, MinAtar's games and bsuite's tasks in JAX, thousands of each at once."""
