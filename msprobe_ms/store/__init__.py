"""Dumps on disk: collectors write them, comparisons read them, and the two share nothing else."""
