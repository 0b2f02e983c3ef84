"""Collecting in compiled graphs, where calls are not visible to Python.

Cells in graphs (level L0): `collector`, then `instrumentation`, `compiled_calls`, `transport`, and `calls`.
`save` and `save_grad`: `save`, then `compiled_save` and `tree`.
Kernels (level L2): `kernel` configures MindSpore's own dump, and `gather` converts it to a dump of this tool.
`code_mapping` adds source lines to a kernel dump.
"""
