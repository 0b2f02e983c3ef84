"""Find the corresponding calls of two frameworks, without names.

Read `search` (the steps), `dump_view` and `features` (what a call is recognized by), `score` (points for a pair), then
the steps: `anchors` (parameters and values), `consumers` and `alignment` (calls in sequence).
"""
