"""`store/read.py`: dumps of every origin become the same values."""

import csv
import json
import shutil
import time

import numpy as np
import openpyxl
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.read import load_tensor, read
from msprobe.store.record import Record, Statistics
from msprobe.store.write import Writer

HEADER = {"task": "statistics", "level": "mix", "framework": "mindspore"}

# Calls and leaves of each sample, counted with a few lines of plain json.
SIZES = {
    "8.1.1": {"ms_L0_stat": (8, 20), "ms_L1_stat": (12, 33), "pt_mix_stat": (26, 72), "task_structure_mix": (0, 0)},
    "26.2.0": {"ms_L0_stat": (8, 20), "ms_L1_stat": (12, 33), "pt_mix_stat": (20, 54), "task_structure_mix": (0, 0)},
}
for sizes in SIZES.values():
    sizes.update({f"{side}_mix_{kind}": (20, 53) for side in ("ms", "msp") for kind in ("md5", "stat", "tensor")})
SAMPLES = [(version, name) for version, sizes in SIZES.items() for name in sizes]


def tensor(top=1.0, **more):
    return {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": [2],
        "Max": top,
        "Min": 0,
        "Mean": 0,
        "Norm": 0,
        **more,
    }


def rows(dump):
    return [record for call in dump.calls for record in call.records]


@pytest.mark.parametrize(("version", "name"), SAMPLES)
def test_dumps_of_the_other_tool_are_read_whole(samples, version, name):
    dump = read(samples / version / "dumps" / name / "step0", structure=True)
    assert (len(dump.calls), len(rows(dump))) == SIZES[version][name]
    assert dump.format_version == 0
    assert (dump.step, dump.rank) == (0, 0)
    assert dump.framework == ("pytorch" if name.startswith("pt") else "mindspore")


def table_names(path):
    if path.suffix == ".csv":
        return [row[0] for row in csv.reader(path.read_text().splitlines())][1:]
    return [row[0] for row in openpyxl.load_workbook(path).active.values][1:]


@pytest.mark.parametrize("version", SIZES)
@pytest.mark.parametrize("kind", ["stat", "md5", "tensor"])
def test_rows_have_the_names_and_the_order_of_the_other_tools_table(samples, version, kind):
    (table,) = (samples / version / "compare" / f"MS_MS_same_mix_{kind}").glob("compare_result.*")
    dump = read(samples / version / "dumps" / f"ms_mix_{kind}" / "step0")
    assert [record.name for record in rows(dump)] == table_names(table)


def test_a_sample_in_detail(samples):
    dump = read(samples / "8.1.1/dumps/ms_mix_tensor/step0/rank/dump.json")
    assert (dump.task, dump.level) == ("tensor", "mix")
    call = dump.calls[0]
    assert (call.name, call.parent) == ("Primitive.dense.Dense.0.forward", "Cell.fc1.Linear.forward.0")
    assert len(call.stack) == 17
    assert call.stack[0].endswith("line 924, in construct, \n x = self.dense(x, self.weight, self.bias)")
    assert call.records[1] == Record(
        name="Primitive.dense.Dense.0.forward.input.1",
        part="input",
        path=("1",),
        kind="tensor",
        type="mindspore.Tensor",
        dtype="Float32",
        shape=(32, 16),
        statistics=Statistics(0.17504319548606873, -0.1554069221019745, 0.003038613125681877, 1.1764150857925415),
        file="Primitive.dense.Dense.0.forward.input.1.npy",
    )
    assert dump.construct["Cell.fc1.Linear.forward.0"] is None
    # Its own reader and numpy's agree on every tensor.
    folder = samples / "8.1.1/dumps/ms_mix_tensor/step0/rank/dump_tensor_data"
    named = [record for record in rows(dump) if record.file]
    assert len(named) == 52
    for record in named:
        array = load_tensor(dump, record)
        assert array.shape == record.shape
        assert array.tobytes() == np.load(folder / record.file).tobytes()


def test_digests_are_read(samples):
    dump = read(samples / "26.2.0/dumps/msp_mix_md5/step0")
    assert dump.calls[0].records[0].digest == "cb3d93ed"


def test_null_gradients_are_rows(samples):
    dump = read(samples / "8.1.1/dumps/ms_mix_stat/step0")
    (record,) = next(call.records[-1:] for call in dump.calls if call.name == "Cell.fc1.Linear.backward.0")
    assert record == Record("Cell.fc1.Linear.backward.0.output.0", "output", ("0",), "null", "")


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


def test_both_layouts_of_the_stacks(write):
    data = {"F.0.forward": {"output": []}, "F.1.forward": {"output": []}}
    new = write(data, inside="new/rank", stack={"0": [["F.0.forward", "F.1.forward"], ["a", "b"]]})
    old = write(data, inside="old/rank", stack={"F.0.forward": ["a", "b"], "F.1.forward": ["a", "b"]})
    for folder in (new, old):
        assert [call.stack for call in read(folder).calls] == [("a", "b"), ("a", "b")]


def test_a_stack_file_that_lies_elsewhere(write, tmp_path):
    (tmp_path / "other.json").write_text('{"0": [["F.0.forward"], ["z"]]}')
    folder = write({"F.0.forward": {"output": []}}, stack={"0": [["F.0.forward"], ["a"]]})
    assert read(folder, stack=tmp_path / "other.json").calls[0].stack == ("z",)
    with pytest.raises(DumpError, match=r"absent\.json"):
        read(folder, stack=tmp_path / "absent.json")


def test_a_dump_without_its_companions_is_read(write):
    (call,) = read(write({"F.0.forward": {"output": []}})).calls
    assert (call.parent, call.stack) == (None, ())


def test_parents_under_micro_steps(write):
    construct = {
        "F.0.forward": ["Cell.a.A.forward.0", 1],
        "Cell.a.A.forward.0": [None, 1],
        "megatron_micro_step_number": 4,
    }
    dump = read(write({"F.0.forward": {"output": []}}, construct=construct))
    assert dump.construct == {"F.0.forward": "Cell.a.A.forward.0", "Cell.a.A.forward.0": None}
    assert dump.calls[0].parent == "Cell.a.A.forward.0"


@pytest.mark.parametrize(
    ("inside", "step", "rank"), [("step2/rank3", 2, 3), ("step2/rank", 2, 0), ("step2/proc99", 2, 0)]
)
@pytest.mark.parametrize("up", [0, 1, 2])
def test_a_file_its_rank_or_its_step_may_be_given(write, tmp_path, inside, step, rank, up):
    folder = write({"F.0.forward": {"output": []}}, inside=inside)
    given = [folder / "dump.json", folder, folder.parent][up]
    dump = read(str(given))
    assert (dump.step, dump.rank) == (step, rank)
    assert dump.where == str(folder / "dump.json")


def test_a_relative_path_knows_its_step(write, monkeypatch):
    monkeypatch.chdir(write({"F.0.forward": {"output": []}}, inside="step2/rank3"))
    assert (read(".").step, read("dump.json").rank) == (2, 3)


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


def test_a_structure_dump_has_no_records_and_says_so(samples):
    path = samples / "8.1.1/dumps/task_structure_mix/step0"
    with pytest.raises(DumpError, match=r"`structure` and holds no records; collect again with task `statistics`"):
        read(path)
    assert len(read(path, structure=True).construct) == 18


def test_a_dump_without_calls_is_read_with_a_word(write, capsys):
    assert read(write({})).calls == ()
    assert "holds no calls" in capsys.readouterr().err


def test_an_unfinished_dump_is_read_with_a_word(write, capsys):
    folder = write({"F.0.forward": {"output": []}})
    assert read(folder).unfinished == ""
    assert capsys.readouterr().err == ""
    (folder / "dump.journal").write_text("")
    assert "still writes, or died" in read(folder).unfinished
    assert "is unfinished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ({}, r"holds no dump\.json; give the folder of a step or of a rank"),
        (
            {"step0/rank0/dump.json": "{}", "step0/rank1/dump.json": "{}"},
            r"step0: holds 2 ranks; give one of rank0, rank1",
        ),
        ({"rank10/dump.json": "", "rank9/dump.json": ""}, r"holds 2 ranks; give one of rank9, rank10"),
        ({f"rank{n}/dump.json": "" for n in range(12)}, r"12 ranks; give one of rank0, .*, rank7 and 4 more"),
        ({"step10/rank/dump.json": "", "step9/rank/dump.json": ""}, r"holds steps; give one of step9, step10"),
        ({"step0/rank/dump.json": "{}"}, r"holds steps; give one of step0"),
        ({"pynative/step0/rank/dump.json": "{}"}, r"there are the folders pynative"),
        ({"dump.journal": ""}, r"only the journal of an unfinished dump; run `msprobe doctor .*`"),
        ({"rank0/dump.journal": ""}, r"only the journal of an unfinished dump; run `msprobe doctor .*rank0`"),
        ({"rank0/stack.json": "{}"}, r"rank0: holds no dump\.json"),
    ],
)
def test_a_folder_that_is_no_dump_says_what_it_holds(tmp_path, make, message):
    for name, text in make.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    given = tmp_path / "step0" if any(name.startswith("step0/rank1") for name in make) else tmp_path
    with pytest.raises(DumpError, match=message):
        read(given)


def test_a_missing_path_is_said(tmp_path):
    with pytest.raises(DumpError, match="absent: there is no such file or folder"):
        read(tmp_path / "absent")


def test_the_journal_itself_is_no_dump(tmp_path):
    (tmp_path / "dump.journal").write_text("H\t{}\t{}\n")
    with pytest.raises(DumpError, match="run `msprobe doctor"):
        read(tmp_path / "dump.journal")


def test_a_tensor_that_was_not_saved(write):
    dump = read(write({"F.0.forward": {"output": [tensor()]}}))
    with pytest.raises(DumpError, match=r"F\.0\.forward\.output\.0 has no tensor; collect with task `tensor`"):
        load_tensor(dump, rows(dump)[0])


def test_a_moved_dump_finds_its_tensors(folder, tmp_path):
    writer = Writer(folder, HEADER)
    name = writer.tensor("F.0.forward.output.0.npy", np.arange(2.0))
    writer.call("F.0.forward", None, None, json.dumps({"output": [tensor(data_name=name)]}))
    writer.close()
    shutil.move(folder, tmp_path / "elsewhere")
    dump = read(tmp_path / "elsewhere")
    assert load_tensor(dump, rows(dump)[0]).tolist() == [0.0, 1.0]


def test_twenty_thousand_rows_a_side_are_read_in_moments(folder):
    writer = Writer(folder, HEADER)
    for i in range(5000):
        entry = {"input_args": [tensor(), tensor()], "output": [tensor(), None]}
        writer.call(f"Functional.relu.{i}.forward", None, None, json.dumps(entry))
    writer.close()
    start = time.process_time()
    assert len(rows(read(folder))) == 20_000
    # About 0.15 s on a desktop; the bound only catches a reader that has become ten times slower.
    assert time.process_time() - start < 2
