"""The capabilities of MindSpore."""
