"""A client of a server: a session there, the connection to it, and how values travel."""
