"""MuJoCo: gymnasium's continuous control environments."""
