"""`msprobe graft`: from a finding to a proof, by runs of the training with values of the golden run in it.

Read `gap` (how far two runs are apart, and the noise floor), `plan` (the values of the golden that fit the calls of the
target), `hypotheses` (the grafts that test a finding), `proof` (the runs and their verdicts), then `report`, `page` and
`verb`. `runs` compares a run with the golden step by step. Without a training, `offline` estimates runs by what
`propagate` computes from the recorded calls. The training itself is grafted by `cell_dump.grafts`, in its own process.
"""
