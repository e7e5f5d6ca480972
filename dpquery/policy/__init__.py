"""The data owner's file: its keys, the model, the loader."""
