"""`store/reader.py`: calls and records of every origin become the same values."""

import json

import numpy as np
import pytest
from leaves import HEADER, rows, tensor

from msprobe.store.reader import load_tensor, read
from msprobe.store.record import Record, Statistics
from msprobe.store.writer import Writer


def worked_example():
    def saved(name, top, **more):
        return {
            "type": "mindspore.Tensor",
            "dtype": "Float32",
            "shape": [2, 3],
            "Max": top,
            "Min": 0.0,
            "Mean": 3.5,
            "Norm": 11.8321,
            **more,
            **({"data_name": name} if name else {}),
        }

    whole = {"type": "int", "value": 2}
    mask = {
        "type": "mindspore.Tensor",
        "dtype": "Bool",
        "shape": [2, 3],
        "Max": True,
        "Min": False,
        "Mean": None,
        "Norm": None,
    }
    return {
        "Functional.topk.0.forward": {
            "input_args": [saved("", 1.0), whole],
            "input_kwargs": {},
            "output": [saved("", 2.0), mask],
        },
        "Functional.concat.0.forward": {
            "input_args": [[saved("", 3.0), saved("", 4.0)]],
            "input_kwargs": {},
            "output": [saved("", 5.0)],
        },
        "Cell.a.Sub.forward.0": {
            "input_args": [saved("Cell.a.Sub.forward.0.input.0.npy", 7.0, md5="7a0a407c")],
            "input_kwargs": {"scale": {"type": "float", "value": 3.0}},
            "output": [saved("Cell.a.Sub.forward.0.output.0.npy", 9.7, md5="5ed5b545")],
        },
        "Cell.a.Sub.backward.0": {"input": [saved("", 6.0)], "output": [None]},
        "Cell.a.d.Dense.parameters_grad": {
            "weight": [saved("Cell.a.d.Dense.parameters_grad.weight.npy", 126.5, md5="19f00e04")],
            "bias": [saved("", 8.0)],
        },
    }


def test_the_worked_example(folder):
    writer = Writer(folder, {**HEADER, "task": "tensor"})
    writer.tensor("Cell.a.Sub.forward.0.input.0.npy", np.full((2, 3), 7, np.float32))
    for name, entry in worked_example().items():
        writer.call(name, "Cell.a.Sub.forward.0" if name.startswith("Functional") else None, None, json.dumps(entry))
    writer.close()
    dump = read(folder)
    assert [(record.name, record.kind, record.part) for record in rows(dump)] == [
        ("Functional.topk.0.forward.input.0", "tensor", "input"),
        ("Functional.topk.0.forward.input.1", "value", "input"),
        ("Functional.topk.0.forward.output.0", "tensor", "output"),
        ("Functional.topk.0.forward.output.1", "tensor", "output"),
        ("Functional.concat.0.forward.input.0.0", "tensor", "input"),
        ("Functional.concat.0.forward.input.0.1", "tensor", "input"),
        ("Functional.concat.0.forward.output.0", "tensor", "output"),
        ("Cell.a.Sub.forward.0.input.0", "tensor", "input"),
        ("Cell.a.Sub.forward.0.input.scale", "value", "input"),
        ("Cell.a.Sub.forward.0.output.0", "tensor", "output"),
        ("Cell.a.Sub.backward.0.input.0", "tensor", "input"),
        ("Cell.a.Sub.backward.0.output.0", "null", "output"),
        ("Cell.a.d.Dense.parameters_grad.weight", "tensor", "parameters_grad"),
        ("Cell.a.d.Dense.parameters_grad.bias", "tensor", "parameters_grad"),
    ]
    by_name = {record.name: record for record in rows(dump)}
    assert by_name["Functional.topk.0.forward.output.1"].statistics == Statistics(True, False, None, None)
    assert by_name["Functional.concat.0.forward.input.0.1"].path == ("0", "1")
    assert by_name["Cell.a.Sub.forward.0.input.scale"].value == 3.0
    assert by_name["Cell.a.Sub.forward.0.output.0"].digest == "5ed5b545"
    assert by_name["Cell.a.d.Dense.parameters_grad.weight"].path == ("weight",)
    assert (dump.step, dump.rank, dump.format_version) == (3, 1, 1)
    assert dump.calls[0].parent == "Cell.a.Sub.forward.0"
    assert load_tensor(dump, by_name["Cell.a.Sub.forward.0.input.0"]).tolist() == [[7.0] * 3] * 2


def test_rows_stand_in_one_order_whatever_the_json_says(write):
    entry = {
        "output": [tensor()],
        "parameters": {"weight": tensor()},
        "input_kwargs": {"alpha": {"type": "float", "value": 1.0}, "n": None},
        "input_args": [tensor(), {"type": "int", "value": 2}],
    }
    dump = read(write({"Mint.add.0.forward": entry}))
    assert [record.name for record in rows(dump)] == [
        "Mint.add.0.forward.input.0",
        "Mint.add.0.forward.input.1",
        "Mint.add.0.forward.input.alpha",
        "Mint.add.0.forward.input.n",
        "Mint.add.0.forward.parameters.weight",
        "Mint.add.0.forward.output.0",
    ]


@pytest.mark.parametrize("suffix", [".npy", ".pt"])
def test_a_saved_tensor_lends_its_name_to_the_row(write, suffix):
    dump = read(
        write({"F.0.forward": {"input_kwargs": {"mask": tensor(data_name=f"F.0.forward.kwargs.mask{suffix}")}}})
    )
    (record,) = rows(dump)
    assert record.name == "F.0.forward.kwargs.mask"
    assert record.path == ("mask",)
    assert record.file == f"F.0.forward.kwargs.mask{suffix}"


def test_empty_lists_and_objects_give_no_row(write):
    assert rows(read(write({"F.0.forward": {"input_args": [[], {}], "input_kwargs": {}, "output": []}}))) == []


def test_parameter_gradients_of_every_age(write):
    data = {
        "Cell.a.A.parameters_grad": {"weight": [tensor()], "bias": [None], "gamma": tensor()},
        "Cell.a.A.parameters_grad.1": {
            "weight": [tensor()],
            "is_recompute": False,
            "missing": ["bias"],
            "micro_step": 1,
        },
        "Cell.b.B.parameters_grad": {"weight": [tensor(), tensor()]},
    }
    dump = read(write(data))
    assert [(record.name, record.kind) for record in rows(dump)] == [
        ("Cell.a.A.parameters_grad.weight", "tensor"),
        ("Cell.a.A.parameters_grad.bias", "null"),
        ("Cell.a.A.parameters_grad.gamma", "tensor"),
        ("Cell.a.A.parameters_grad.1.weight", "tensor"),
        ("Cell.b.B.parameters_grad.weight.0", "tensor"),
        ("Cell.b.B.parameters_grad.weight.1", "tensor"),
    ]
    assert dump.calls[1].missing == ("bias",)


@pytest.mark.parametrize(
    ("leaf", "kind", "value"),
    [
        ({"type": "int", "value": 2}, "int", 2),
        ({"type": "bool", "value": True}, "bool", True),
        ({"type": "str", "value": "same"}, "str", "same"),
        ({"type": "slice", "value": [0, None, 2]}, "slice", [0, None, 2]),
        ({"type": "ellipsis", "value": "..."}, "ellipsis", "..."),
        ({"type": "mindspore.dtype", "value": "Float32"}, "mindspore.dtype", "Float32"),
        ({"type": "float32", "value": 1.5}, "float32", 1.5),
        ({"type": "torch.Size", "value": [2, 3]}, "torch.Size", [2, 3]),
        ({"type": "torch.memory_format", "format": "preserve_format"}, "torch.memory_format", "preserve_format"),
        ({"type": "mindspore.ProcessGroup", "group_ranks": [0, 1], "group_id": "x"}, "mindspore.ProcessGroup", [0, 1]),
        ({"type": "unheard.of"}, "unheard.of", None),
    ],
)
def test_values_that_are_no_tensors(write, leaf, kind, value):
    (record,) = rows(read(write({"F.0.forward": {"input_args": [leaf]}})))
    assert record == Record("F.0.forward.input.0", "input", ("0",), "value", kind, value=value)


def test_an_array_of_numpy_is_a_tensor(write):
    leaf = {**tensor(), "type": "numpy.ndarray", "dtype": "float32"}
    (record,) = rows(read(write({"F.0.forward": {"input_args": [leaf]}})))
    assert (record.kind, record.type, record.dtype) == ("tensor", "numpy.ndarray", "float32")


def test_communication_ops_keep_their_tensor_and_their_words(write):
    op = {"class_type": "mindspore.mint.distributed.P2POp", "tensor": tensor(), "op": "isend", "peer": 1}
    dump = read(write({"Distributed.batch_isend_irecv.0.forward": {"input_args": [[op]]}}))
    stem = "Distributed.batch_isend_irecv.0.forward.input.0.0"
    assert [(record.name, record.kind, record.value) for record in rows(dump)] == [
        (f"{stem}.class_type", "value", "mindspore.mint.distributed.P2POp"),
        (f"{stem}.tensor", "tensor", None),
        (f"{stem}.op", "value", "isend"),
        (f"{stem}.peer", "value", 1),
    ]


def test_statistics_keep_their_kinds(write):
    leaves = [
        tensor(2**63, Min=-(2**63), Mean=0.5, Norm=1.0),
        tensor(float("nan"), Min=float("-inf"), Mean=float("nan"), Norm=float("inf")),
        tensor(None, Min=None, Mean=None, Norm=None),
    ]
    first, second, third = (record.statistics for record in rows(read(write({"F.0.forward": {"output": leaves}}))))
    assert (first.max, first.min) == (2**63, -(2**63))
    assert repr([second.max, second.min, second.mean, second.norm]) == "[nan, -inf, nan, inf]"
    assert third == Statistics(None, None, None, None)


@pytest.mark.parametrize(
    "leaf",
    [
        {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "tensor_stat_index": 5},
        {
            "type": "mindspore.Tensor",
            "dtype": "Float32",
            "shape": [2],
            "tensor_stat_index": 5,
            "Max": 0.0,
            "md5_index": 2,
        },
        {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2]},
    ],
)
def test_a_placeholder_is_no_statistic(write, leaf):
    (record,) = rows(read(write({"F.0.forward": {"output": [leaf]}})))
    assert (record.kind, record.shape, record.statistics, record.digest) == ("tensor", (2,), None, "")


def test_our_own_keys(write):
    entry = {
        "input_args": [tensor(**{"from": "parameter fc1.weight"}), tensor()],
        "output": [tensor(gradient="accumulated"), tensor(gradient="unavailable"), tensor()],
        "missing": ["output.3"],
        "is_recompute": True,
    }
    missing = [
        {"name": "F.0.backward", "part": "output.4", "cause": "disk full"},
        {"name": "G.0.forward", "part": "", "cause": "hook failed"},
    ]
    dump = read(write({"F.0.backward": entry}, format_version=1, missing=missing, run={"step": 7, "rank": 2}))
    (call,) = dump.calls
    assert [record.source for record in call.records] == ["parameter fc1.weight", "", "", "", ""]
    assert [record.gradient for record in call.records] == ["own", "own", "accumulated", "unavailable", "own"]
    assert call.missing == ("output.3", "output.4")
    assert call.is_recompute
    assert dump.missing == ("F.0.backward output.4: disk full", "G.0.forward: hook failed")
    assert (dump.step, dump.rank, dump.format_version) == (7, 2, 1)


def test_keys_that_nobody_knows_are_passed_over(write):
    entry = {
        "output": [tensor(layout={"Partial": [1]}, hsdp_shard_size=4, requires_grad=True)],
        "colour": "blue",
        "micro_step": 1,
    }
    dump = read(write({"F.0.forward": entry}, new_key=[1, 2]))
    assert [record.name for record in rows(dump)] == ["F.0.forward.output.0"]


def test_saved_variables_are_read_from_debug_json(tmp_path):
    data = {
        "var.0.debug": {"k": tensor(data_name="var.0.debug.k.npy"), "l": [{"type": "int", "value": 1}, None]},
        "x.0.debug": tensor(),
    }
    (tmp_path / "debug.json").write_text(json.dumps({**HEADER, "level": "debug", "data": data}))
    dump = read(tmp_path)
    assert [(record.name, record.part, record.kind) for record in rows(dump)] == [
        ("var.0.debug.k", "debug", "tensor"),
        ("var.0.debug.l.0", "debug", "value"),
        ("var.0.debug.l.1", "debug", "null"),
        ("x.0.debug", "debug", "tensor"),
    ]


def test_the_framework_is_guessed_where_it_is_not_said(write):
    for kind, framework in (("torch.Tensor", "pytorch"), ("mindspore.Tensor", "mindspore"), ("other", "")):
        assert (
            read(write({"F.0.forward": {"output": [{**tensor(), "type": kind}]}}, framework=None)).framework
            == framework
        )
