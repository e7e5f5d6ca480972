"""Text to a sqlglot tree in which every node is known."""
