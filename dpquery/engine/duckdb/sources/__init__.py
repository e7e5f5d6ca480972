"""Sources of private rows: a view of each table, by types of the policy."""
