"""What users of msprobe can ask for, and this version does not have: what it has instead. A row goes when its feature
comes. `reference/not-available.md` lists them all.
"""

COMMANDS = {
    "run_overflow_check": "`msprobe acc_check` checks the calls of a dump, and says where NaN or infinities are wrong",
    "parse": "files of kernels are read as they are: `msprobe compare` takes them, `msprobe gather` makes a dump of "
    "them",
    "offline_dump": "inference with offline models is not collected; collect a training, or generation with "
    "token_range",
    "install_deps": "pip installs what is needed: pip install 'msprobe-ms[mindspore]' or 'msprobe-ms[torch]'",
}
"""Commands of msprobe 8.1 and 26 by name, and what to do instead."""

_MSPROBE = "in msprobe its tool for PyTorch alone reads it"

WITHOUT_EFFECT = {
    "enable_dataloader": f"a step ends where step() is called; {_MSPROBE}",
    "dump_enable": f"the file is read once, and start() and stop() say when to collect; {_MSPROBE}",
    "risk_level": f'every public function is seen, and "list" chooses among them; {_MSPROBE}',
    "custom_op_namespaces": f"functions of your own are collected by register_custom_api(); {_MSPROBE}",
    "backward_input": f"no backward is run again; {_MSPROBE}",
    "online_run_ut": f"`msprobe acc_check` checks the dump behind the training; {_MSPROBE}",
    **dict.fromkeys(("nfs_path", "host", "port"), f"nothing is sent to another machine; {_MSPROBE}"),
    **dict.fromkeys(("bench_path", "diff_nums"), f"dumps are compared by `msprobe compare`; {_MSPROBE}"),
}
"""Settings that are accepted and do nothing with either framework, and why: what this version does instead."""
