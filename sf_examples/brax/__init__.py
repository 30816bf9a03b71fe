"""Brax: simulators in JAX, Google's own and MuJoCo's MJX, that step thousands of environments at once."""
