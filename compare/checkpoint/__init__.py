"""Two checkpoints in, a verdict for each parameter out."""
