"""The page of a server: for analysts an editor, answers and charts; for owners an overview."""
