"""Functions of moments: means, variances, covariances, correlations, regressions."""
