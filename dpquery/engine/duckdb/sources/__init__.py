"""Views of private tables: how each kind of source is read, by types of the policy."""
