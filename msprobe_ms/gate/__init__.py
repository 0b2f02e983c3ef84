"""The numerics gate: compares a run with a golden file of at most 1 MB, by the judgement of `msprobe compare`.

Read `recording` (runs a command with the settings of the gate), `training` (what a run has learned: losses, gradients,
updates), `golden` (makes a golden file of a run), then `judge` (the verdict on a run), `report` (its lines, document
and summary), `accepting`, and the commands: `record_verb`, `check_verb`, `accept_verb`, `show_verb`. `calibration`
measures by how much several correct runs differ. `block` and `pytest_plugin` collect a part of a test; `bisection`
finds a commit.
"""
