"""Decide which differences are noise: each call is judged on its own inputs, along the dataflow (explanation/noise.md).

Read `pairs` (two aligned dataflow graphs), `judge` (the pass in execution order), `evidence` (the interface for the
evidence at outputs), then either kind of evidence:

- replays: `kernels`;
- statistics: `summary`, `identities`, `deviations`, `operation` and `statistics`.

`judge` uses:

- before a difference: `upstream`, `unrecorded`, `handed_on`;
- after it: `reach`, `downstream`;
- calls of one side only: `structure`, `precision`, `lone_leaves`;
- rounding that no other evidence contradicts: `rounding`, `bounds`.

`verdicts` enters the result into the comparison.
"""
