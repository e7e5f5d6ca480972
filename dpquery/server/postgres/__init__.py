"""The door for clients of PostgreSQL: its protocol 3, over TLS, with passwords by SCRAM."""
