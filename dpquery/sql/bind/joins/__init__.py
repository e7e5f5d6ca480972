"""Joins of private rows: within their units, and with public or released rows."""
