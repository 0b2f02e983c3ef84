"""The training monitor: a few numbers of every parameter, gradient and activation at every optimizer step.

Read `trainer` (the interface), `settings` and `engine` (a step), then what is measured: `parameters`, `gradients`,
`activations`, `collectives` and `features`, with `readings` (the numbers) and `backend` (the framework). `guard`
contains failures. `alerts`, `rules`, `robust` and `anomalies` report anomalies, `alert_dump` collects after one,
`switch` turns the monitor on and off. `sectioned_trainer` and `sectioned_settings` are the interface of msprobe 26's
second monitor. `msprobe.store.monitor` writes the files.
"""
