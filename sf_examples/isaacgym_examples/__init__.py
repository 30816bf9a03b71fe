"""Isaac Gym's tasks, by their names and with their settings, on simulators that can be installed today."""
