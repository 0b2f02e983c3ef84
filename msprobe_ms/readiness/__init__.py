"""Check before a training begins whether it can be collected: installation, output folder, configuration.

Read `report` (all checks), `finding` (results as data), then `installation` with `versions`, `place`, and
`configuration` with `patterns` and `target`.
"""
