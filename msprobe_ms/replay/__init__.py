"""Execute recorded calls again in float64, and measure the residual of the recorded outputs.

Read `replay` (the steps), `recorded` (the parts of a call), `plan` (its operation and arguments), with `operations`,
`own` and `options`, then `reference` (executes it) and `residual`. `references` has expected outputs as data;
`replay.results` are those of a call on other inputs.
"""
