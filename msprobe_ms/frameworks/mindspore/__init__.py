"""The capabilities of MindSpore, one module each, as `msprobe.frameworks.interface` lists them.

Collecting: read `collecting`, `functions`, `modules`, `autograd`, then `records`, `reading` and `tensors` (values).
`jit` records compiled functions from outside; `executors` is imported below the collectors.
"""
