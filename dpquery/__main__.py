"""`python -m dpquery` is the command line."""

from dpquery.shell.main import entry

entry()
