"""PostgreSQL's catalogue for clients that look around: what a policy says, and no data."""

from dpquery.server.catalogue.process_client import Catalogue

__all__ = ["Catalogue"]
