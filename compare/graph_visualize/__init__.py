"""Write the network of one or two dumps as a file for msprobe's TensorBoard plugin.

Read `draw` (the steps, rank after rank), `graph` (nodes and their tree), `rank` and `values` (the content of a dump),
`links` (corresponding nodes), `comparison` (measures) and `indicators` (judges), `communication` (exchanges of ranks),
then `rows`, `database` and `json_file`, which write. `colors` is data.
"""
