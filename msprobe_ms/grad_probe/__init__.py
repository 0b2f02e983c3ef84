"""The task `grad_probe`: the gradients that an optimizer receives, at each of its calls."""
