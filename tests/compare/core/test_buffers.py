"""Which arguments of a collective are filled: one rule for verdicts and for the search over ranks, by signatures."""

import importlib
import inspect

import numpy as np
import pytest

from msprobe.compare.core.buffers import BATCH, function_of, has_buffers, is_buffer
from msprobe.compare.core.reason import Cause
from msprobe.compare.judge.pairs import says_nothing
from msprobe.compare.locate.find import locate
from msprobe.compare.ranks.collectives import fills
from msprobe.compare.run import compare
from msprobe.store.record import PARTS

RECEIVERS = {"output", "output_tensor", "output_tensor_list", "output_tensor_lists", "tensor_list", "object_list"}
RECEIVERS |= {"gather_list", "object_gather_list", "scatter_object_output_list"}
"""What both frameworks call an argument that is written into, besides the `tensor` of recv and scatter."""

SENDERS = ("broadcast_object_list", "send_object_list")
"""They read their `object_list`, of a broadcast on the root."""


@pytest.mark.parametrize(
    "package",
    [
        pytest.param("torch.distributed", marks=pytest.mark.torch),
        pytest.param("mindspore.mint.distributed", marks=pytest.mark.mindspore),
    ],
)
def test_the_filled_arguments_are_those_of_the_signatures(package):
    pytest.importorskip(package.partition(".")[0], reason="its signatures are read")
    module = importlib.import_module(package)
    words = ("gather", "scatter", "all_to_all", "recv")
    seen = 0
    for name, function in vars(module).items():
        if not name.islower() or not any(word in name for word in words) or not inspect.isfunction(function):
            continue
        parameters = list(inspect.signature(function).parameters)
        expected = {
            p for p in parameters[:2] if p in RECEIVERS or (p == "tensor" and name in ("recv", "irecv", "scatter"))
        }
        if name in SENDERS or name == BATCH or not expected:
            continue
        seen += 1
        other = ("1",) if parameters[0] in expected else ("0",)
        for place, parameter in enumerate(parameters[:2]):
            for path in ((str(place),), (parameter,)):
                assert is_buffer(name, path, [path, other, ("input",)]) == (parameter in expected), (name, path)
    assert seen >= 12


@pytest.mark.parametrize("name", ["all_reduce", "broadcast", "send", "isend", "reduce", "gather_into_tensor"])
def test_functions_that_fill_nothing_have_no_buffers(name):
    assert not has_buffers(name)
    assert not is_buffer(name, ("0",), [("0",), ("1",)])


def test_indexing_of_the_same_name_is_no_collective():
    assert function_of("Mint.gather.0.forward") == function_of("Tensor.scatter.0.forward") == ""
    assert function_of("MintDistributed.gather.0.forward") == "gather"
    assert function_of("Distributed.gather.0.backward") == ""


FORMS = [
    ("all_gather_into_tensor", [2.0, 1.0], {}, {("0",)}),
    ("all_gather_into_tensor", [2.0], {"input_tensor": 1.0}, {("0",)}),
    ("all_gather_into_tensor", [], {"output_tensor": 2.0, "input_tensor": 1.0}, {("output_tensor",)}),
    ("all_gather_into_tensor", [1.0], {}, set()),  # it returns the result
    ("all_gather", [[2.0, 2.5], 1.0], {}, {("0", "0"), ("0", "1")}),
    ("all_to_all_single", [2.0, 1.0], {}, {("0",)}),
    ("_reduce_scatter_base", [2.0, 1.0], {}, {("0",)}),
    ("reduce_scatter", [2.0, [1.0, 1.5]], {}, {("0",)}),
    ("scatter", [2.0, [1.0, 1.5]], {}, {("0",)}),
    ("scatter", [2.0], {"scatter_list": [1.0]}, {("0",)}),
    ("gather", [1.0, [2.0, 2.5]], {}, {("1", "0"), ("1", "1")}),
    ("gather", [1.0], {"gather_list": [2.0]}, {("gather_list", "0")}),
    ("irecv", [2.0], {}, {("0",)}),
    ("recv", [], {"tensor": 2.0}, {("tensor",)}),
    ("all_reduce", [1.0], {}, set()),
]


@pytest.mark.parametrize(("function", "inputs", "keywords", "filled"), FORMS)
def test_verdicts_and_the_search_over_ranks_ask_one_rule(builder, function, inputs, keywords, filled):
    name = f"Distributed.{function}.0.forward"
    build = builder("t")
    dump = build.call(name, inputs, [9.0], kwargs=keywords).dump()
    columns, call = dump.columns, dump.calls[0]
    rows = [row for row in columns.rows(0) if PARTS[columns.part[row]] == "input"]
    assert {columns.path_of(row) for row in rows if says_nothing(columns, 0, row)} == filled
    assert {r.path for r in call.records if r.part == "input" and fills(function, r.path, call.records)} == filled


def test_of_a_batch_what_is_received_is_filled_and_what_is_sent_is_read(builder, value):
    build = builder("t")
    name = f"Distributed.{BATCH}.0.forward"
    build.call(name, [], [])
    build.data[name]["input_args"] = [
        {key: build._record(f"{name}.input.{n}.{key}", v) for key, v in (("op", value(op)), ("tensor", float(n)))}
        for n, op in enumerate(("isend", "irecv"))
    ]
    dump = build.dump()
    columns, call = dump.columns, dump.calls[0]
    tensors = [r for r in call.records if r.kind == "tensor"]
    assert [fills(BATCH, r.path, call.records) for r in tensors] == [False, True]
    rows = [row for row in columns.rows(0) if columns.path_of(row)[-1] == "tensor"]
    assert [says_nothing(columns, 0, row) for row in rows] == [False, True]


@pytest.mark.parametrize("function", ["all_to_all_single", "_all_gather_base", "_reduce_scatter_base"])
def test_what_a_collective_reads_is_judged(builder, function):
    """The buffer differs between any two runs; the tensor that is put in must not."""
    name, dumps = f"Distributed.{function}.0.forward", []
    for side, memory, put_in in (("t", 7.0, 1.5), ("g", 3.0, 1.0)):
        dumps.append(builder(side).call(name, [memory, put_in], [np.ones(2, np.float32)]).dump())
    comparison = compare(*dumps)
    (call,) = comparison.calls
    buffer, read, *_ = call.judged
    assert (buffer.grade, buffer.verdict.cause) == ("unjudged", Cause.UNUSED)
    assert read.grade == "error"
    assert locate(comparison).first.name == name
