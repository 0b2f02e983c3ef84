"""The signs of gradients of two runs, as the task `grad_probe` records them, compared step by step."""
