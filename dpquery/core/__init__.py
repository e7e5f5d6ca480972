"""What every package builds on: source text, types, exact numbers, events, tables of text."""
