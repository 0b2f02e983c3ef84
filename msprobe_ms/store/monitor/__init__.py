"""The files of a monitor.

Read `layout` (names of files), `writer` and `scoped_writer`, then `runs` (ranks of a run), `reader`, `lines`, `columns`
and `table` (content in memory). `events` writes TensorBoard's files, and `gradient_files` those of `grad_probe`.
"""
