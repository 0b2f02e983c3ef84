"""All comparisons of a request: planned, run, and combined into one answer.

Read `plan` (pairs of dumps), `run` (runs the jobs), `outcome` (one job: read, compare, write), then `summary` and
`answer` (all outcomes) and `report` (the page). `calibration` writes limits of noise; `digested` and `first` skip ranks
whose digests are equal; `shard_layouts` detects ranks that have to be merged; `survey` counts the agreement of each
part of a run.
"""
