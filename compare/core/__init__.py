"""Data that all stages of a comparison share. Measures and judges nothing.

Read `relation` (how the frameworks of the two sides are related), `reason` (why a pair has its verdict), `exemptions`
(the table of differences that are excused), `standard` (tolerances), `measures`, `noise` (states and evidence of pairs)
and `limits` (limits of noise). `tensor` identifies a tensor, `exchanges` the calls that exchange
tensors between ranks, `buffers` the arguments that a collective fills;
`user_limits` and `layouts` are options of the user.
"""
