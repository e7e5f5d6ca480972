"""From a checked statement to scans, releases and one charge."""
