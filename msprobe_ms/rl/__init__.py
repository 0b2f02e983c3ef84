"""Floor 7: reinforcement learning driven by one section of its configuration, key data and the stages of the models."""
