"""Collecting calls that are visible to Python: modules, functions, and their gradients.

Read `collector` (one step of a training), `session` (the calls of a step), `forward` and `backward` (one call each),
then `describer` (converts a value to a record). `cell` and `functions` select the calls, `wrappers` replaces functions,
and `call_sites` determines their names. `gradient`, `recompute`, `collective` and `unwritten` are special cases;
`saves` is `PrecisionDebugger.save`. `framework` is the interface that each framework implements.
"""
