"""Compare two dumps: verdicts for their records, and the first wrong call.

Read `run` first, which compares two dumps, then the packages in the order of the data:

- data of all stages: `core`; tasks in processes: `workers`;
- counterparts: `match`, and `counterparts` for two frameworks;
- numbers: `measure`;
- verdicts: `judge`, then `noise` along the dataflow (`dataflow`), and `updates` for parameters after a step;
- the first wrong call: `locate`, `advice`; among ranks: `ranks`;
- output: `tables`, `explain`, and `units` for the report page;
- all steps and ranks of a request: `jobs`; model-parallel ranks: `parallel`.

`verb` is the command, `request` has its options, `dispatch` selects the comparison by the types of the paths, and
`entry` is the Python interface. The other packages compare other data: `checkpoint`, `config_check`, `grad_probe`,
`graph_visualize`, `key_data`, `merge`, `monitor`, `rl`, `rollout`, `suggest`.
"""
