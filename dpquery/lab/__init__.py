"""`dpquery lab`: mechanisms on synthetic values, for one's own numbers. No data, no policy."""
