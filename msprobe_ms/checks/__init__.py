"""Checks of one run without a golden run.

`dumps` finds the dumps of the run, and `gaps` counts what could not be judged. `nonfinite` finds the first call that
produced NaN or infinities, and `invariants` checks what holds in every correct training.
"""
