"""Pack the configuration of a run: environment, packages, settings, data, weights, random calls, framework.

Read `checker` (collects while a training runs), `features`, `random_calls` and `static` with `shell` (the entries),
then `pack_writer` (the zip file). `compare.config_check` compares two packs.
"""
