"""How the gradients of a framework's optimizers are observed."""
