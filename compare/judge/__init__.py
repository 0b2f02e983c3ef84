"""Verdicts of pairs of records from their measures and a standard, each with a reason.

Read `verdict` (grades, and the verdicts of single values), `pairs` (all pairs, by columns or individually), `elements`
(tensors that have to be measured), `cross_framework` (two frameworks), then `judged` (the result, a `Comparison`).
`wording` has the sentences, `decision` the rule that decided one pair, and `overflow` the severity of NaN and
infinities.
"""
