"""What captures need of the interpreter: looks at stacks, hooks, and who else has a place in it."""
