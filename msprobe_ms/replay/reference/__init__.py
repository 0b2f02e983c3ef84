"""The reference: calls executed in float64 by torch on the CPU. Importing a module of this package imports torch.

Read `compute` (all candidates of a call), `execute` (one candidate), `sensitivity`, then `functions`, `attention`,
`indexing`, `optimizers` and `routing` (operations without a PyTorch function). `sampling` replays parts of large calls.
"""
