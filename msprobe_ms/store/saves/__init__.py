"""Trees of files that were saved by name, read."""
