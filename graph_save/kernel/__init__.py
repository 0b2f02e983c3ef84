"""Kernel dump at level L2: configures the framework's own dump, and switches it on and off with the steps.

Read `collector`, `dump_settings` (the JSON file of the settings), then `environment` and `machine`.
"""
