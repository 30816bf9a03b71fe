"""What families share whose environments live on a device, as vectors of thousands: flags, and simulators in JAX."""
