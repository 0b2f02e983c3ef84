"""The task `grad_probe`: the gradients that an optimizer receives, at each of its calls.

Read `probe` (the optimizers and files of one debugger), then `gradient` (the record of one gradient).
"""
