"""The data owner's file: model, loader, draft, check."""
