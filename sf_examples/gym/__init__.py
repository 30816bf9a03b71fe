"""Any environment that gymnasium knows, by its id."""
