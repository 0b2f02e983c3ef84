"""Compare two monitored trainings: the first divergence, and its meaning.

Read `pairing` (counterparts), `deviations` (measures), `band` (judges), `locate` (the answer), `finding` (results as
data), then `report` and `output`.
"""
