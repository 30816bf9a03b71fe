"""What follows when a component fails, dies or falls silent."""
