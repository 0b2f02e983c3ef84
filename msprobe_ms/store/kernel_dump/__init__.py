"""Read the framework's own kernel dumps."""
