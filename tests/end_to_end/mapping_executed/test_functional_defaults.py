"""The defaults of mindspore.ops that the table tells are those of the functions, and none that differs is missing."""

import importlib
import inspect
import sys
from pathlib import Path

import pytest

pytest.importorskip("mindspore", reason="its signatures are read")
pytest.importorskip("torch", reason="its signatures are read")

from mindspore import ops

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
executed = importlib.import_module("executed")
TABLE = importlib.import_module("msprobe.mapping.api").load_table()
PAIRS = [pair for stem, pairs in TABLE.entries.items() if stem.startswith("Functional.") for pair in pairs]

MEAN_THE_SAME = {
    ("affine_grid", "align_corners"),  # False, and None with a warning
    ("norm", "ord"),  # None, and "fro": the norm of all elements
}


def defaults(function):
    """Parameter to default; None of what is written in C++."""
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return None
    return {name: p.default for name, p in parameters.items() if p.default is not p.empty}


def plain(value):
    return list(value) if isinstance(value, tuple) else value


def test_declared_defaults_are_those_of_mindspore():
    wrong, seen = [], 0
    for pair in PAIRS:
        known = defaults(getattr(ops, pair.ms.partition(".")[2], None))
        for name, value in pair.ms_defaults.items():
            seen += 1
            if plain(known.get(name)) != value:
                wrong.append(f"{pair.ms}: {name} is {known.get(name)!r}, the table says {value!r}")
    assert not wrong, "\n".join(wrong)
    assert seen > 20


def test_a_default_that_differs_is_declared():
    """As far as both sides tell their defaults: of PyTorch's functions, those written in Python."""
    wrong, seen = [], 0
    for pair in PAIRS:
        function = executed.pt_function(pair.pt)
        here, there = defaults(getattr(ops, pair.ms.partition(".")[2], None)), defaults(function) if function else None
        for name, value in (here or {}).items():
            target = pair.renamed.get(name, name)
            if not there or target not in there or name in pair.dropped:
                continue
            seen += 1
            value = pair.values.get(name, {}).get(value, value)
            is_told = name in pair.ms_defaults or (pair.ms.partition(".")[2], name) in MEAN_THE_SAME
            if value != there[target] and not is_told:
                wrong.append(f"{pair.ms} -> {pair.pt}: {name} is {value!r}, {target} is {there[target]!r}")
    assert not wrong, "\n".join(wrong)
    assert seen > 80
