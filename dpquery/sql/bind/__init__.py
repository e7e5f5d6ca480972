"""Names and arguments resolved: sqlglot's tree ends here, ours begins."""
