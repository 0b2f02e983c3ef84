"""Run tasks in this process, in worker processes, or on a Dask cluster, by one interface.

Read `run` (the interface), `pool` and `cluster`; `progress` shows a bar, and `resume` continues an interrupted
comparison.
"""
