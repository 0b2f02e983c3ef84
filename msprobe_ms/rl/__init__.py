"""Collecting reinforcement learning, by one section of its configuration: key data and the stages of the models."""
