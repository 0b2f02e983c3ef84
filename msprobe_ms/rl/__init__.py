"""Collecting reinforcement learning by one section of its configuration: key data, and the stages of the models.

Read `probe` (`MsProbe`), `settings`, `stages` and `key_data`, then `in_graph` and `compiled_data` (key data in compiled
graphs).
"""
