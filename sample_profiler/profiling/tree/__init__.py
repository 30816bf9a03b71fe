"""A recording as plain data: nodes, their kinds and figures, gauges, and how all that is merged and printed."""
