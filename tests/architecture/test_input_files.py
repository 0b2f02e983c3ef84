"""Files that a user or a dump names are opened by `msprobe.base.files` alone, which waits for no pipe and no device.

What opens a file by itself stands here with the reason. The list is exact: a line that is no longer needed fails too.
"""

import ast
from collections import Counter

OPENS = {
    "msprobe.base.files": {"os.open": 3, "open": 1},  # where all others open, and temporary files
    "msprobe.store.npy": {"os.open": 2},  # written
    "msprobe.store.monitor.writer": {"os.open": 1},  # appended to, behind a look at its header
    "msprobe.store.lock": {"os.open": 4},  # opened to be locked and written; no pipe is waited for
    "msprobe.base.memory": {"read_text": 1},  # of the kernel, which says how much memory is left
    "msprobe.compare.workers.run": {"read_text": 2},  # of the kernel, which says how many cores are ours
    "msprobe.mapping.api": {"read_text": 1},  # a table of the wheel
    "msprobe.mapping.layers": {"read_text": 1},  # a table of the wheel
    "msprobe.store.torch_files": {
        "ZipFile": 1,
        "torch.load": 2,
    },  # of an open file; by path behind the look at it, to map it
    "msprobe.store.config_pack": {"ZipFile": 1},  # of an open file
    "msprobe.store.archive": {"ZipFile": 2},  # the same
    "msprobe.compare.tables.sheet": {"ZipFile": 1},  # of bytes in memory
    "msprobe.compare.merge.tables": {"ZipFile": 1, "load_workbook": 1},  # of an open file
    "msprobe.compare.rollout.read": {"ZipFile": 1, "np.load": 1},  # of an open file
    "msprobe.compare.key_data.pairs": {"np.memmap": 1},  # of an open file
    "msprobe.store.kernel_dump.values": {"np.fromfile": 1},  # of an open file
    "msprobe.compare.workers.resume": {"open": 1},  # by the number of the open journal
    "msprobe.store.run_folder": {"os.open": 1, "read_text": 2},  # a file that was claimed before; what /proc says
    "msprobe.precheck.tables": {"os.open": 1},  # appended to, what the same check began
    "msprobe.mcp_server.server": {"open": 1},  # a copy of standard input
    "msprobe.report.file": {"read_bytes": 1},  # the built page, a part of this package
    "msprobe.gate.golden": {"read_bytes": 1},  # what it wrote, in its temporary folder
    "msprobe.verify_collection": {"read_text": 1},  # what its own child wrote, in a folder of its own
}

_READERS = {
    *("np.load", "np.fromfile", "np.memmap", "np.loadtxt", "np.genfromtxt", "torch.load", "os.open", "os.fdopen"),
    *("io.open", "io.FileIO", "codecs.open", "gzip.open", "bz2.open", "lzma.open", "tarfile.open", "mmap.mmap"),
}
_READING_NAMES = {"read_text", "read_bytes", "load_workbook", "ZipFile", "FileIO"}


def _mode(call):
    """The mode of an `open`, empty where none is said."""
    modes = [node.value for node in call.args[1:2] if isinstance(node, ast.Constant)]
    modes += [word.value.value for word in call.keywords if word.arg == "mode" and isinstance(word.value, ast.Constant)]
    return str(modes[0]) if modes else ""


def _opens(tree):
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        text = ast.unparse(call.func)
        name = text.rpartition(".")[2]
        if text == "open":
            # A file that is written, by name or by a number that was opened for it, is another matter.
            if not set(_mode(call)) & set("wax"):
                yield text
        elif text in _READERS:
            if "O_WRONLY" not in ast.unparse(call) or text != "os.open":
                yield text
        elif name in _READING_NAMES and "w" not in _mode(call):
            yield name


def test_input_files_are_opened_in_one_place(modules):
    found = {module.name: dict(opened) for module in modules if (opened := Counter(_opens(module.tree)))}
    assert found == OPENS
