"""The command `msprobe report`: one page for the data in its paths.

Read `verb`, `sides` (detects what the paths contain) and `alone` (a single dump).
"""
