"""Find the first call that produced NaN or infinities from finite values, among all ranks.

Read `values` (records that are not finite), `walk` (one rank), `absorbed` (masks), `search` (all ranks), then `finding`
(results as data) and `wording`. `node` has the format of mindstudio-probe's files.
"""
