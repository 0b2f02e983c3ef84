"""Check what holds in every correct training, in the dumps of one run.

Read `table` (all invariants), `judgement` (their results as data), `rows` (the parameters and gradients of a
dump), then a module with invariants: `training`, `replicas`, `exchanges`, `clipping`, `losses`, `calls` (with `masks`),
`replayed` or `resumed`. `report` and `verb` print the answer.
"""
