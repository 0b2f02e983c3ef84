"""Floor 3: two dumps in, verdicts out."""
