"""The durable list of charges, in a file or on a server."""
