"""Compare two runs of an RL flow: configurations, key data and stages, in the order of the flow.

Read `compare` (the steps), `order` (the parts of an RL step), `configurations`, `key_data` and `stages` (what is
compared), `walk` (the first difference), `origin` (its explanation), then `result` and `report`. `wording` has the
sentences; `roots` detects the folders of a flow.
"""
