"""Answers that were paid for: found again, refined, or answered at no charge."""
