"""Compare two checkpoints, parameter by parameter.

Read `sources` (the checkpoints in a path), `formats` and `ckpt` (files), `megatron` (merges the ranks of a model),
`match` and `recognize` (counterparts, by names and by values), then `compare` (measures, verdicts and the answer).
"""
