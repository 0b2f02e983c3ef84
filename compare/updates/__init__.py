"""Judge parameters after the first step by their updates: noise, or a setting of the optimizer that differs.

Read `tracks` (weights and gradients of consecutive steps), `judgement` (all parameters), `fit` (the settings of one
side), `settings` (the settings of both sides), and `statistics` (if tensors were not saved). `explained` applies the
result to a comparison.
"""
