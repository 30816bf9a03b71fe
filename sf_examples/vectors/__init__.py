"""What families of vectors share: flags and defaults, and simulators in JAX."""
