"""The task `free_benchmark`: an API is run a second time with slightly changed inputs, and the outputs are compared.

Read `perturber` (the collector), `apis` (the functions), `session` and `second_run` (one call), `arguments`,
`perturbation` and `formats` (the changed input), `comparison` (measures the outputs), then `ranking` (lines that
amplify most). Results are data in `finding`.
"""
