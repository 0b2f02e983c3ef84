"""Numbers and a standard become verdicts, each with a reason."""
