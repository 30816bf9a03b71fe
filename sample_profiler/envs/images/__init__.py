"""Pictures as observations, made smaller, and with the dimensions in the order that networks expect."""
