"""What helps to write a statement: where the cursor stands, and what may stand there."""
