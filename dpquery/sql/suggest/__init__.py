"""Mended queries that refusals offer."""
