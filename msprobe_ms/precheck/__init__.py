"""Check single APIs against float64: `msprobe acc-check`, scripts that reproduce one call, and comparing two devices.

Read `run` (all APIs), `check` (one API), `inputs` and `executor` (executes it), `standards` (limits), `measures` and
`judge`, `chance` (dropout), then `tables` and `report`. `generate`, `script` and `reduce` write scripts, `devices`
compares devices, and `training` checks calls while a training runs.
"""
