"""Commands and settings of mindstudio-probe that are not available in this version, with alternatives.

See `reference/not-available.md`.
"""

from typing import NamedTuple

COMMANDS = {
    "run_overflow_check": "`msprobe acc-check` checks the calls of a dump, including NaN and infinities",
    "parse": "`msprobe compare` reads kernel dumps directly, and `msprobe gather` converts them",
    "offline_dump": "inference with offline models is not collected; collect a training, or generation with "
    "token_range",
    "install_deps": "install it with pip: pip install 'msprobe-ms[mindspore]' or 'msprobe-ms[torch]'",
}
"""Commands of mindstudio-probe 8.1 and 26, and their alternatives."""

_MSPROBE = "in mindstudio-probe, only its tool for PyTorch reads it"

WITHOUT_EFFECT = {
    "enable_dataloader": f"a step ends where step() is called; {_MSPROBE}",
    "dump_enable": f"the file is read once, and start() and stop() control collection; {_MSPROBE}",
    "risk_level": f'every public function is collected, and "list" selects among them; {_MSPROBE}',
    "custom_op_namespaces": f"user functions are collected with register_custom_api(); {_MSPROBE}",
    "backward_input": f"backward passes are not executed again; {_MSPROBE}",
    "online_run_ut": f"`msprobe acc-check` checks the dump after the training; {_MSPROBE}",
    **dict.fromkeys(("nfs_path", "host", "port"), f"data is not sent to other machines; {_MSPROBE}"),
    **dict.fromkeys(("bench_path", "diff_nums"), f"dumps are compared by `msprobe compare`; {_MSPROBE}"),
}
"""Settings that are accepted and have no effect with either framework, and the reason."""


class IgnoredKey(NamedTuple):
    """A key that a release of mindstudio-probe reads, and this version ignores.

    key : the key.
    sections : sections that may contain it; "" is the top level.
    source : the release that reads it, determined by running each release.
    instead : the alternative.
    """

    key: str
    sections: tuple[str, ...]
    source: str
    instead: str


_TOP = ("",)
_DUMPS = ("statistics", "tensor", "structure", "acc_check")
_COMPARED = "`msprobe compare` compares dumps"
_NOT_SENT = "data is not sent to other machines"
_NOTHING_LIKE_IT = "it is not available in this version"

IGNORED_KEYS = (
    IgnoredKey("seed", _TOP, "1.0.4", "seed_all(seed) seeds a training"),
    IgnoredKey("is_deterministic", _TOP, "1.0.4", "seed_all(mode=True) selects deterministic operators"),
    IgnoredKey("acl_config", _TOP, "1.0.4", 'level "L2" does not need an ACL configuration file'),
    IgnoredKey("load", _TOP, "26.2.0", _NOTHING_LIKE_IT),
    IgnoredKey("request_id", _DUMPS, "26.2.0", _NOTHING_LIKE_IT),
    IgnoredKey("slice", _DUMPS, "26.2.0", "tensors are recorded completely"),
    IgnoredKey("diff_nums", ("statistics", "structure", "acc_check"), "26.2.0", _COMPARED),
    IgnoredKey(
        "backward_input",
        ("statistics", "overflow_check", "free_benchmark", "grad_probe"),
        "1.0.4",
        "backward passes are not executed again",
    ),
    IgnoredKey("online_run_ut_recompute", ("tensor",), "8.1.1", 'task "acc_check" checks calls during the training'),
    IgnoredKey("tls_path", ("tensor", "acc_check"), "8.1.1", _NOT_SENT),
    IgnoredKey("error_data_path", ("acc_check",), "26.2.0", "results are written to dump_path"),
    IgnoredKey("is_online", ("acc_check",), "8.1.1", _NOT_SENT),
    IgnoredKey("nfs_path", ("acc_check",), "8.1.1", _NOT_SENT),
    IgnoredKey("host", ("acc_check",), "8.1.1", _NOT_SENT),
    IgnoredKey("port", ("acc_check",), "8.1.1", _NOT_SENT),
    IgnoredKey("rank_list", ("acc_check",), "8.1.1", '"rank" at the top level selects ranks'),
)
