"""The parameters that the table names are those that the functions have, in their order."""

import importlib
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

pytest.importorskip("mindspore", reason="its signatures are read")
pytest.importorskip("torch", reason="its signatures are read")

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
executed, signatures = (importlib.import_module(name) for name in ("executed", "signatures"))
api = importlib.import_module("msprobe.mapping.api")

PAIRS = [pair for pairs in api.load_table().entries.values() for pair in pairs]

BY_KIND = ("dsplit", "hsplit", "tensor_split", "vsplit")
"""PyTorch calls the same argument `sections` or `indices`, by its kind; MindSpore has one name for it."""


def is_operator(stem):
    """The arguments of operators have no names."""
    return stem.rpartition(".")[2].startswith("__")


def test_parameters_of_pytorch():
    """A second name for the same function may lack parameters, and have another name for the first one."""
    wrong, checked, first = [], 0, set()
    for pair in PAIRS:
        is_first = (pair.ms, pair.pt_signature) not in first
        first.add((pair.ms, pair.pt_signature))
        if is_operator(pair.pt) or executed.pt_function(pair.pt) is None or not pair.pt_signature:
            continue
        known = signatures.of_pytorch(pair.pt)
        checked += bool(known)
        is_loose = not is_first or pair.pt.startswith("Tensor.")
        found = known and signatures.faults(pair.pt_signature, known, is_loose)
        if found and pair.pt.rpartition(".")[2] not in BY_KIND:
            wrong.append(f"{pair.ms} -> {pair.pt}: {', '.join(found)}; it has {[s.every for s in known]}")
    assert not wrong, "\n".join(wrong)
    assert checked > 0.8 * len(PAIRS)


def test_parameters_of_mindspore():
    """A primitive is called by position only, so there is but their number."""
    wrong, checked = [], 0
    for pair in PAIRS:
        if is_operator(pair.ms) or not pair.ms_signature:
            continue
        known = signatures.of_mindspore(pair.ms)
        checked += bool(known)
        if pair.ms.startswith("Primitive."):
            found = known and len(pair.ms_signature.names) > max(len(each.names) for each in known)
        else:
            found = known and signatures.faults(pair.ms_signature, known, pair.ms.startswith("Tensor."))
        if found:
            wrong.append(f"{pair.ms} -> {pair.pt}: {found}; it has {[s.every for s in known]}")
    assert not wrong, "\n".join(wrong)
    assert checked > 0.6 * len(PAIRS)


def differing(pair):
    """(parameter of MindSpore, its default, those of PyTorch) where both are values and no overload agrees."""
    for ms in signatures.of_mindspore(pair.ms):
        for name, default in ms.defaults.items():
            to = pair.renamed.get(name, name)
            defaults = [each.defaults[to] for each in signatures.of_pytorch(pair.pt) if to in each.defaults]
            if not defaults or not all(is_value(each) for each in [default, *defaults]):
                continue
            if pair.values.get(name, {}).get(default, default) not in defaults:
                yield name, default, defaults


def is_value(default):
    """None, `()` and `...` say "as usual" on either side; what that is shows only when both are run."""
    return isinstance(default, int | float | str)


def test_defaults_that_differ_are_declared():
    wrong = [
        f"{pair.ms} -> {pair.pt}: {name} is {default!r}, there {values}: write it under `defaults`"
        for pair in PAIRS
        if not pair.ms.startswith(("Primitive.", "Distributed.")) and executed.pt_function(pair.pt) is not None
        for name, default, values in differing(pair)
        if name not in {**pair.dropped, **pair.ms_defaults, **pair.transforms}
    ]
    assert not wrong, "\n".join(wrong)
