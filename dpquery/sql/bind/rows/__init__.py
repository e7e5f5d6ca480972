"""Expressions over rows: columns, types, fields, lists, and what is computed within a unit."""
