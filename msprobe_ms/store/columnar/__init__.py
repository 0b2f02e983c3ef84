"""The records of a columnar dump in a table of Parquet (`reference/format.md`, page 13)."""
