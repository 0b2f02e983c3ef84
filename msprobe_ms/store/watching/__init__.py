"""Collecting that watches: calls are looked at while they run, and only those that show something are written."""
