"""Functions of how values are spread: histograms, densities, the most frequent values."""
