"""What vectors return: arrays of whatever make, and what one step told of all members, as arrays and as tensors."""
