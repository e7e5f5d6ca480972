"""Side-by-side measurements: dpquery against DuckDB's own answer, in one run."""
