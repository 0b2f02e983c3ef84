"""Operators that send the events of a running graph: by Python callbacks, or by files."""
