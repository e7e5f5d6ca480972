"""How answers are shown: the formats they are written in, and charts."""
