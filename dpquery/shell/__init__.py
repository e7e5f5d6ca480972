"""The command line: a front end like any other, which calls `Session.sql` and prints."""
