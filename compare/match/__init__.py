"""Find the counterparts of calls and records. Measures nothing.

Read `pairs` (the result), `dumps` (the steps), `calls` (pairs of calls), with `call_keys`, `alignment` and `nodes`
(kernels of graphs), then `cross_framework` and `records` (two frameworks) and `fused` (fused parameters).
`user_mapping` applies the mapping files of the user.
"""
