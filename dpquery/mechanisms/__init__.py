"""Mechanisms: integers in, integers out, each with a claim."""
