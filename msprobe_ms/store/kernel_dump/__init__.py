"""Read the framework's own kernel dump without converting it.

Read `files` (ranks, graphs and iterations), `executions` (the values of one kernel) and `values`.
"""
