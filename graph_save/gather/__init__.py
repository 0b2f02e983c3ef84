"""Convert the framework's own kernel dump to a dump of this tool. Imports no framework.

`verb` is the command and `run` gathers all ranks. `metadata` reads settings, execution orders and graphs (`trace`,
`ir_dataflow`); `dump` and `entry` write the dump of one iteration.
"""
