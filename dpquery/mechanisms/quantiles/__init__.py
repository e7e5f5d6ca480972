"""Quantile mechanisms: the defaults, and those of the literature to compare them with."""
