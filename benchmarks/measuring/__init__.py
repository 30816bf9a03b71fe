"""What several benchmarks share: live runs, phases taking turns in them, and intervals for what was measured."""
