"""Serving a policy to analysts who do not hold its files: PostgreSQL's protocol, and a page."""
