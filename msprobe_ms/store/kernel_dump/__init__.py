"""The framework's own kernel dump, read as it lies."""
