"""Merge the dumps of model-parallel ranks into dumps of the whole model.

Read `merge` (the steps), `dumps` (the ranks of one side), `stages` (pipeline stages in sequence), `exchanges` and
`cuts` (how a value is distributed), then `records`, `values` and `tensors` (merged records, with their statistics and
elements). `shards` merges distributed tensors by the layouts in their records.
"""
