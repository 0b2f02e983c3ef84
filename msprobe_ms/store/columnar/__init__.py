"""The records of a columnar dump as a table of Parquet (`reference/format.md`, page 13).

Read `records` (the table), `templates` (common parts of entries), then `load` (reads it into columns).
"""
