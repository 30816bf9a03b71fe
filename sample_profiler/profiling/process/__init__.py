"""What the kernel tells of this process and its machine: memory, cores, control groups."""
