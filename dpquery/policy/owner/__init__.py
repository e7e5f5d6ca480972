"""What serves the owner alone: drafts of a policy, and checks of it against the data."""
