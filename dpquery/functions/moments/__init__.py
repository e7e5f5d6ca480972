"""What is computed from Bernstein sums: means, spreads, covariances, lines and planes."""
