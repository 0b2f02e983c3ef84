"""Dumps on disk, the only connection between collecting and comparing.

Read `record` (dumps, calls, records and columns), then

- writing: `describe`, `writer`, `journal`, `async_writer`, `assembly`;
- reading: `reader`, `flatten`, `stacks_and_construct`, `npy`, `torch_files`, `tensor_file`;
- folders: `layout`, `detect`, `folders`, `run_folder`, `rl_roots`, `lock`.

`digests`, `bundle`, `config_pack`, `conversion` and `free_benchmark` are other files. `columnar` and `tensor_pack` are
the binary format, `watching` decides which calls are written, `monitor` has the files of the training monitor, and
`kernel_dump` and `saves` read files that are not dumps.
"""
