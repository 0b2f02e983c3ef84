"""Task `acc_check`: checks calls against float64 while the training runs, within a time budget for each step.

Read `watch` (a filter in front of the writer), then `call` (converts tensors in memory to a recorded call).
"""
