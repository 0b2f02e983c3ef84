"""Compare the configurations of two runs, as `config_check` packs them.

Read `compare` (all checkers), then the checkers: `environment`, `packages`, `context`, `hyperparameters`, `tensors` and
`random_calls`. `findings` has their results as data; `sheets` and `report` write them.
"""
