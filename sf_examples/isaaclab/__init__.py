"""Isaac Lab, and simulators that speak as it does: tensors on a device, observations in groups."""
