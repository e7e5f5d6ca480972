"""How quantile mechanisms draw: exact weights of a grid, bounds on these, and rejection."""
