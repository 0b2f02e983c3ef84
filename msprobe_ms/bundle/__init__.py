"""Pack two dumps and the answer of their comparison into one file for a bug report.

Read in this order: `verb` (the command), `pack` (the steps), `dumps` (which files of a dump are packed, and what of
them), `privacy` (which texts are replaced), `answer` (the comparison of the originals, and of what is packed). The
format and its reader are in `msprobe.store.bundle`.
"""
