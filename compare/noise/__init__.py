"""Decide which differences are noise: each call is judged on its own inputs, along the dataflow (explanation/noise.md).

Read `pairs` (two aligned dataflow graphs), `flow` (the state of the pass), `judge` (the pass in execution order), then
the rules in the order in which they apply:

- `inputs`: by the calls that produced an input. `upstream` and `handed_on` search through calls of one side only;
  `leaves`: inputs that no recorded call produced;
- `outputs`: by the evidence about a call. Its interface is in `evidence`; by replays: `kernels`; by statistics:
  `summary`, `identities`, `deviations`, `operation` and `statistics`. `exchanges`: results that also depend on inputs
  of other ranks.

After the pass:

- `reach`: which differences die out;
- `structure`, `precision`, `lone_leaves`, `downstream`: calls of one side only;
- `rounding`, `bounds`: rounding that no other evidence contradicts;
- `verdicts` enters the result into the comparison.
"""
