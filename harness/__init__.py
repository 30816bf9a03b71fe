"""What tests and benchmarks share: real runs in processes of their own, faults in them, and lines that are kept."""
