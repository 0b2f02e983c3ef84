"""How many calls one training step of each network makes, counted by hand from parts.py, structures.py and layers.py.

This is the evidence, independent of the debugger, that a run which left every bit as it was did collect something.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from msprobe.store.columnar.records import read_records

NONE = (0, 0)


@dataclass(frozen=True)
class Calls:
    """(forward, backward) calls of one step by kind; of saves: (saved, gradients that arrived)."""

    cells: tuple[int, int] = NONE
    apis: tuple[int, int] = NONE
    primitives: tuple[int, int] = NONE
    jits: tuple[int, int] = NONE
    saves: tuple[int, int] = NONE

    def at(self, level: str) -> "Calls":
        """What is left of them at a level."""
        kinds = {"L0": ("cells",), "L1": FUNCTIONS, "mix": ("cells", *FUNCTIONS), "debug": ("saves",)}[level]
        return Calls(**{kind: getattr(self, kind) for kind in kinds})


FUNCTIONS = ("apis", "primitives", "jits")

# The root is no call. Linear is 2 calls of APIs, RMSNorm 6, Block 10 with 3 cells, the loss 3. What nobody uses, and
# integers, have no backward.
# Saves: every network saves its result "y", with its gradient, and train.py the loss and the gradients, without.
CALLS: Mapping[str, Calls] = {
    # stem 2, blocks 20, loss; each block saves
    "branching": Calls(cells=(7, 7), apis=(25, 25), saves=(5, 3)),
    # three linears 6, two tanh, one sum, loss
    "shared": Calls(cells=(3, 3), apis=(12, 12), saves=(3, 1)),
    # linears 4, gelu, mul, leaky_relu, mul, loss
    "looking": Calls(cells=(2, 2), apis=(11, 11), saves=(3, 1)),
    # linears 4, tanh, imul, iadd, setitem, loss; z is saved before and after it is rewritten
    "in_place": Calls(cells=(2, 2), apis=(11, 11), saves=(5, 3)),
    # linears 4, mul, tanh, mul, exp, sum, loss; tanh of "aux" is used by nobody
    "dict_outputs": Calls(cells=(3, 3), apis=(12, 11), saves=(4, 2)),
    # stem 2, block 10, loss. The second run in backward has norm and linear and the block's 10 APIs again, and the
    # framework's stop_gradient; the first run has no graph
    "recomputed": Calls(cells=(6, 4), apis=(26, 15), saves=(5, 2)),
    # The first run has the graph. The second is left in gelu, the last that keeps something for backward: norm 6,
    # linear 2, gelu again
    "recomputed_early": Calls(cells=(6, 4), apis=(24, 15), saves=(5, 2)),
    # gather, linear 2, gelu, transpose, matmul, loss
    "tied": Calls(cells=(2, 2), apis=(9, 9), saves=(3, 1)),
    # linears 4, mul, loss; doubling's own `bprop` calls `dout * 2` in backward, and the multiplication inside the cell
    # with `bprop` has no graph
    "own_gradient": Calls(cells=(4, 4), apis=(9, 7), saves=(3, 1)),
    # linears 4, chunk, tanh, mul, sum, loss
    "named_outputs": Calls(cells=(3, 3), apis=(11, 11), saves=(4, 2)),
    # linears 4, tanh before the failure, sigmoid, loss; the cell that failed and its tanh have no backward
    "raising": Calls(cells=(3, 2), apis=(9, 8), saves=(3, 1)),
    # relu, flatten, loss; Conv2D, BiasAdd, Shape twice, BatchNorm, Shape, MatMul, BiasAdd; a Shape has
    # no backward
    "convolution": Calls(cells=(3, 3), apis=(5, 5), primitives=(8, 5), saves=(3, 1)),
    # linears 6, two astype of the norm's parameters, chunk, three times reshape and transpose, swapaxes, two matmul,
    # softmax, transpose, reshape, sum, loss; LayerNorm, Mul. A cast to the same type gives the parameter itself: no
    # backward
    "attention": Calls(cells=(5, 5), apis=(25, 23), primitives=(2, 2), saves=(4, 2)),
    # linears 4, tanh, dropout, normal, mul, sum, loss; the noise needs no gradient; Dropout
    "chance": Calls(cells=(3, 3), apis=(12, 10), primitives=(1, 1), saves=(3, 1)),
    # linears 4, astype, tanh, astype, mul, astype, loss, the loss scaled
    "halves": Calls(cells=(2, 2), apis=(13, 13), saves=(4, 2)),
    # three times branching, but for the loss and the gradients, which are saved once
    "micro_batches": Calls(cells=(21, 21), apis=(75, 75), saves=(11, 9)),
    # add and mod of ids, linear 2, argmax, gather, sum, loss; Shape and Reshape of ids, Gather, Reshape
    "gathered": Calls(cells=(2, 2), apis=(10, 7), primitives=(4, 2), saves=(4, 1)),
    # linears 4, tanh, loss; polynomial twice
    "compiled": Calls(cells=(2, 2), apis=(8, 8), jits=(2, 2), saves=(3, 1)),
}


# What graph_train.py trains; the root is no call. Transformer: embedding, head, and two blocks of themselves, 2 norms,
# 4 linears of attention, 2 of feed-forward, GELU. Odd: first-layer, pair, named, listed 2, kinds, again with its 2, own
# with its 1, idle, head; own and what is in it have a backward that is the user's, and nobody uses what idle gives
GRAPH_CALLS: Mapping[str, Calls] = {
    "graph_transformer": Calls(cells=(22, 22)),
    "graph_convolution": Calls(cells=(6, 6)),
    "graph_odd": Calls(cells=(13, 10)),
}


def named(folder: Path) -> Calls:
    """The calls that construct.json of one step names, also those that the dump does not hold."""
    names = json.loads((folder / "construct.json").read_text())
    found = {each.name: [0, 0] for each in fields(Calls)}
    for name in names:
        found[_kind(name)][".backward" in name] += 1
    return Calls(**{kind: tuple(both) for kind, both in found.items()})


def recorded(folder: Path) -> Calls:
    """The calls that the dump of one step holds, counted by their names."""
    found = {each.name: [0, 0] for each in fields(Calls)}
    for file in (folder / "dump.json", folder / "debug.json", folder / "dump.parquet"):
        for name, entry in _entries(file).items():
            if ".parameters_grad" in name:
                continue
            if file.name == "debug.json":
                is_gradient = "_grad." in name
                found["saves"][is_gradient] += not is_gradient or '"shape"' in json.dumps(entry)
            else:
                found[_kind(name)][".backward" in name] += 1
    return Calls(**{kind: tuple(both) for kind, both in found.items()})


def _entries(file: Path) -> Mapping[str, Any]:
    """The entries of a file of calls; none where it does not exist."""
    if not file.exists():
        return {}
    return read_records(file).entries() if file.suffix == ".parquet" else json.loads(file.read_text())["data"]


def _kind(name: str) -> str:
    kinds = {"Cell": "cells", "Primitive": "primitives", "Jit": "jits"}
    return kinds.get(name.partition(".")[0], "apis")
