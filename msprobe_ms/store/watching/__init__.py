"""Filters in front of a writer, which check calls while they run and write only those with a finding.

Read `watches` (selects the filter), `front` (the interface), then the filters: `overflow` with `content` and `manner`,
`exceptions` and `trigger`. `held`, `last_calls` and `ring` keep values until it is decided; `findings` writes what was
found.
"""
