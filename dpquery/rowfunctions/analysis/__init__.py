"""What is known of expressions before any row is read: ranges, NULL, conditions, key values."""
