"""Checks that need one run only: the first call that made NaN or infinities, and what holds without a golden run."""
