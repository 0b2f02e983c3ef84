"""Floor 1: the dump on disk; both sides meet here and nowhere else."""
