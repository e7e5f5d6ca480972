"""dpquery answers SQL about people without giving away any one of them."""
