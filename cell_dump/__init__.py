"""Floor 3: collecting where Python sees every call."""
