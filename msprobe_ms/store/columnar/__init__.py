"""Dumps in a binary form: a table of Parquet, and one file of tensors (`reference/format.md`, page 13)."""
