"""The query tree: expressions, relations, measures, and the queries made of them."""
