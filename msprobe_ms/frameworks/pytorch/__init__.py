"""The capabilities of PyTorch, one module each, as `msprobe.frameworks.interface` lists them.

Collecting: read `collecting`, `functions`, `modules` with `hooks`, `autograd`, then `records`, `reading` and `tensors`
(values). `compiled` leaves compiled code untouched, `modes` hides work from modes of the user, and `shards` describes
distributed tensors.
"""
