"""Functions of ranks: quantiles, the least and the largest value, and what these share."""
