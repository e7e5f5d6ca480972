"""What rows are read from: files and their schemas, frames, databases, tables of lakes."""
