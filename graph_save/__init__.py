"""Floor 3: collecting where Python does not see the call."""
