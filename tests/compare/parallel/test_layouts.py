"""Parallel layouts: how ranks are numbered, what options cannot be meant, and what merging makes of small dumps."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import DumpError, UsageError
from msprobe.cli import main
from msprobe.compare.core.layouts import Layout, Layouts, layouts_of
from msprobe.compare.dispatch import answer_of, compare_paths
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.parallel.cuts import TakenAs, by_shapes
from msprobe.compare.parallel.merge import merge_sides
from msprobe.compare.parallel.values import concatenated, settled
from msprobe.compare.request import CompareOptions, Request
from msprobe.findings.catalogue import parallel as kinds
from msprobe.findings.finding import Finding, Place
from msprobe.options.parser import parsed


def options(words, has_golden=True):
    return layouts_of(parsed("msprobe compare", CompareOptions, words.split()), has_golden)


def test_ranks_are_numbered_as_megatron_does():
    # Its own example of 16 ranks, tp 2, pp 4: model groups [0, 1], [2, 3]...; pipelines [0, 4, 8, 12], [1, 5, 9, 13]...
    layout = Layout(16, 2, 4)
    assert layout.dp == 2
    assert [layout.rank(tp, 0, 0) for tp in range(2)] == [0, 1]
    assert [layout.rank(0, pp, 0) for pp in range(4)] == [0, 4, 8, 12]
    assert [layout.rank(1, pp, 1) for pp in range(4)] == [3, 7, 11, 15]
    assert layout.model(0) == {0, 1, 4, 5, 8, 9, 12, 13}


def test_the_order_says_which_axis_varies_fastest():
    layout = Layout(8, 2, 2, order="tp-pp-dp")
    assert [layout.rank(tp, pp, 1) for pp in range(2) for tp in range(2)] == [4, 5, 6, 7]


def test_one_value_is_of_both_sides():
    assert options("--rank_size 8 --tp 2 4 --pp 2 1") == Layouts(Layout(8, 2, 2), Layout(8, 4, 1))
    assert options("--rank_size 4 --tp 2", has_golden=False) == Layouts(Layout(4, 2))
    assert options("") is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tp 2", "--rank-size"),
        ("--rank_size 6 --tp 4", "not a multiple"),
        ("--rank_size 4 1 --tp 2 1", "copies of the model"),
        ("--rank_size 4 4 4", "two values"),
        ("--rank_size four", "an integer"),
        ("--rank_size 0", "an integer"),
        ("--rank_size 4 --vpp 2 --tp 2", "pipeline stages"),
        ("--rank_size 4 --order tp-dp-xx", "unknown 'xx'"),
        ("--rank_size 4 --order tp-dp", "once, for example"),
        ("--rank_size 4 --order tp-tp-dp-pp", "once, for example"),
    ],
)
def test_what_cannot_be_meant_is_refused(words, said):
    with pytest.raises(UsageError, match=said):
        options(words)


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=40),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
)
def test_a_concatenation_has_the_statistics_of_the_whole(numbers, cuts):
    whole = np.array(numbers)
    parts = np.split(whole, sorted(min(cut, len(whole)) for cut in cuts))
    made = concatenated([described(part) for part in parts], whole.shape)
    assert (made["Max"], made["Min"]) == (whole.max(), whole.min())
    assert made["Mean"] == pytest.approx(whole.mean(), rel=1e-9, abs=1e-9 * np.abs(whole).max())
    assert made["Norm"] == pytest.approx(np.linalg.norm(whole), rel=1e-12)
    assert made["shape"] == [len(whole)]
    assert settled(made, described(whole), is_ours=True) == described(whole)


def described(array, **more):
    has = array.size > 0
    numbers = (array.max(), array.min(), array.mean(), np.linalg.norm(array)) if has else (None,) * 4
    floats = [None if n is None else float(n) for n in numbers]
    record = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape)}
    return {**record, **dict(zip(("Max", "Min", "Mean", "Norm"), floats, strict=True)), **more}


def test_what_is_not_finite_stays_so():
    parts = [described(np.array([1.0, 2.0])), described(np.array([np.nan, 1.0]), nan_count=1)]
    made = concatenated(parts, (4,))
    assert all(math.isnan(made[key]) for key in ("Max", "Min", "Mean", "Norm"))
    assert made["nan_count"] == 1
    parts = [described(np.array([np.inf]), positive_inf_count=1), described(np.array([-np.inf]))]
    made = concatenated(parts, (2,))
    assert (made["Max"], made["Min"], made["Norm"]) == (math.inf, -math.inf, math.inf)
    assert math.isnan(made["Mean"])


def test_rounding_is_settled_and_a_difference_is_not():
    record = described(np.array([1.0, 2.0, 3.0]))
    assert settled({**record, "Norm": record["Norm"] * (1 + 1e-13)}, record, is_ours=True) == record
    for off in ({"Norm": record["Norm"] * (1 + 1e-9)}, {"Max": 3.0000001}, {"Mean": record["Mean"] + 1e-9}):
        assert settled({**record, **off}, record, is_ours=True) == {**record, **off}


@pytest.mark.parametrize(
    ("mine", "theirs", "taken_as", "shape"),
    [
        ([(4, 8)] * 2, [(8, 8)], TakenAs.PARTS, (8, 8)),
        ([(4, 8)] * 2, [(4, 8)], TakenAs.WHOLE, (4, 8)),
        ([(3, 8), (2, 8)], [(5, 8)], TakenAs.PARTS, (5, 8)),
        ([(4, 8)] * 2, [(2, 8)] * 4, TakenAs.PARTS, (8, 8)),
        ([(4, 8)] * 2, [(4, 8)] * 4, TakenAs.WHOLE, (4, 8)),
        ([(6, 2, 4)] * 2, [(6, 2, 4, 2)], TakenAs.PARTS, (6, 2, 4, 2)),  # the axis was split further
        ([(4, 8)] * 2, [(4, 8)] * 2, TakenAs.UNKNOWN, ()),  # equal sizes tell nothing
        ([(4, 8)] * 2, [(5, 5)], TakenAs.UNKNOWN, ()),
    ],
)
def test_shapes_of_both_sides_tell_how_a_value_is_cut(mine, theirs, taken_as, shape):
    cut = by_shapes(mine, theirs)
    assert (cut.taken_as, cut.shape) == (taken_as, shape)


# Small dumps by hand.


def write(folder, data, construct=None):
    folder.mkdir(parents=True)
    head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "format_version": 1}
    construct = dict.fromkeys(name for name in data if "parameters_grad" not in name) | (construct or {})
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    (folder / "construct.json").write_text(json.dumps(construct))
    (folder / "stack.json").write_text("{}")


def call(inputs, outputs, **more):
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs, **more}


def merged(root, layout, *ranks):
    """The entries, the construct.json and the merge.json of ranks, each given as data, or data and construct."""
    for number, rank in enumerate(ranks):
        write(root / "dump" / f"rank{number}", *(rank if isinstance(rank, tuple) else (rank,)))
    folder = merge_sides(root / "dump", None, Layouts(layout), root / "out").target / "rank0"
    return tuple(json.loads((folder / name).read_text()) for name in ("dump.json", "construct.json", "merge.json"))


A, B = (described(np.array(numbers)) for numbers in ([1.0, 2.0], [3.0, 5.0]))


def test_classes_tell_without_a_golden_what_is_cut(tmp_path):
    def rank(part):
        weight = described(np.array([[part, 1.0]]))
        return {"Module.fc.ColumnParallelLinear.forward.0": call([A], [weight], parameters={"weight": weight})}

    file, _, report = merged(tmp_path, Layout(2, 2), rank(1.0), rank(2.0))
    entry = file["data"]["Module.fc.ColumnParallelLinear.forward.0"]
    assert entry["input_args"] == [A]
    assert entry["parameters"]["weight"]["shape"] == [2, 2]  # along the first axis
    assert entry["output"][0]["shape"] == [1, 4]  # along the last
    assert entry["output"][0]["Norm"] == pytest.approx(math.sqrt(1 + 1 + 4 + 1))
    assert report["values"] == {"equal on all ranks": 1, "concatenated": 2}


def test_without_a_golden_an_unknown_axis_is_a_new_one(tmp_path):
    name = "Functional.relu.0.forward"
    file, _, report = merged(tmp_path, Layout(2, 2), {name: call([A], [A])}, {name: call([A], [B])})
    assert file["data"][name]["output"][0] == {**described(np.array([[1.0, 2.0], [3.0, 5.0]]))}
    assert [f["place"] for f in report["ranks_side_by_side"]["found"]] == ["output.0"]


def test_what_an_exchange_adds_up_is_the_sum(tmp_path):
    total = described(np.array([4.0, 7.0]))
    names = "Functional.linear.0.forward", "Distributed.all_reduce.0.forward"

    def rank(part):
        return dict(zip(names, (call([A], [part]), call([part], [total])), strict=True))

    file, construct, _ = merged(tmp_path, Layout(2, 2), rank(A), rank(B))
    assert list(file["data"]) == list(construct) == [names[0]]
    assert file["data"][names[0]]["output"] == [total]


def test_sizes_that_the_golden_has_as_a_multiple_are_those_of_the_whole(tmp_path):
    name = "Tensor.view.0.forward"

    def one(size, array):
        return {name: call([described(array), {"type": "int", "value": size}], [described(array)])}

    for rank in range(2):
        write(tmp_path / "target" / f"rank{rank}", one(2, np.full(2, rank + 1.0)))
    write(tmp_path / "golden" / "rank", one(4, np.array([1.0, 1.0, 2.0, 2.0])))
    layouts = Layouts(Layout(2, 2), Layout())
    made = merge_sides(tmp_path / "target", tmp_path / "golden", layouts, tmp_path / "out")
    assert made.golden == tmp_path / "golden"
    entry = json.loads((made.target / "rank0" / "dump.json").read_text())["data"][name]
    golden = json.loads((tmp_path / "golden" / "rank" / "dump.json").read_text())["data"][name]
    assert entry == golden


def stage(*layers, number=0):
    """A stage with layers, each with a function inside, in one micro batch."""
    data, construct = {}, {}
    for at, layer in enumerate(layers):
        cell = f"Module.layers.{layer}.Layer.forward.{number}"
        data |= {f"Functional.relu.{at}.forward": call([A], [A]), cell: call([A], [A])}
        construct[f"Functional.relu.{at}.forward"] = cell
    return data, construct


def test_stages_are_chained_and_numbered_as_one(tmp_path):
    file, construct, _ = merged(tmp_path, Layout(2, 1, 2), stage(0, 1, 2), stage(0))  # uneven stages
    layers = [f"Module.layers.{n}.Layer.forward.0" for n in range(4)]
    functions = [f"Functional.relu.{n}.forward" for n in range(4)]
    assert list(file["data"]) == [name for pair in zip(functions, layers, strict=True) for name in pair]
    assert construct == dict(zip(functions, layers, strict=True)) | dict.fromkeys(layers)


def test_layers_that_count_over_all_stages_keep_their_numbers(tmp_path):
    file, _, _ = merged(tmp_path, Layout(2, 1, 2), stage(0, 1), stage(2, 3))
    assert [n for n in file["data"] if n.startswith("Module")] == [
        f"Module.layers.{n}.Layer.forward.0" for n in range(4)
    ]


def test_what_every_stage_does_alike_outside_of_cells_stands_once(tmp_path):
    data, construct = stage(0)
    batch = {"Torch.randint.0.forward": call([{"type": "int", "value": 3}], [B])}
    mine = {"Torch.randint.1.forward": call([{"type": "int", "value": 4}], [A])}
    file, _, _ = merged(
        tmp_path, Layout(2, 1, 2), ({**batch, **data}, construct), ({**batch, **mine, **data}, construct)
    )
    drawn = [name for name in file["data"] if name.startswith("Torch.randint")]
    assert drawn == ["Torch.randint.0.forward", "Torch.randint.1.forward"]
    assert file["data"][drawn[1]]["output"] == [A]


def test_each_copy_of_the_model_is_merged_by_itself(tmp_path):
    name = "Module.norm.LayerNorm.forward.0"
    for rank, record in enumerate((A, A, B, B)):
        write(tmp_path / "dump" / "step0" / f"rank{rank}", {name: call([record], [record])})
    merge_sides(tmp_path / "dump", None, Layouts(Layout(4, 2)), tmp_path / "out")
    for copy, record in enumerate((A, B)):
        file = json.loads((tmp_path / "out" / "step0" / f"rank{copy}" / "dump.json").read_text())
        assert file["data"][name]["output"] == [record]
        assert file["run"]["rank"] == copy if "run" in file else True


def test_exchanges_between_copies_stay_and_those_inside_go(tmp_path):
    inside, between = "Distributed.all_reduce.0.forward", "Distributed.all_reduce.1.forward"

    def exchange(given, made, *ranks):
        group = {"type": "torch.ProcessGroup", "group_ranks": list(ranks)}
        return {**call([given], [made]), "input_kwargs": {"group": group}}

    for rank, part in enumerate((A, B, A, B)):
        others = [rank // 2 * 2, rank // 2 * 2 + 1], [rank % 2, rank % 2 + 2]
        data = {inside: exchange(part, B, *others[0]), between: exchange(B, A, *others[1])}
        write(tmp_path / "dump" / f"rank{rank}", {"Module.a.A.forward.0": call([A], [A]), **data})
    made = merge_sides(tmp_path / "dump", None, Layouts(Layout(4, 2)), tmp_path / "out").target
    for copy in range(2):
        data = json.loads((made / f"rank{copy}" / "dump.json").read_text())["data"]
        # Numbers are those of the calls that the model has.
        assert list(data) == ["Module.a.A.forward.0", "Distributed.all_reduce.0.forward"]
        assert data["Distributed.all_reduce.0.forward"]["output"] == [A]


def test_a_call_that_one_rank_lacks_is_left_out_and_said(tmp_path):
    name = "Functional.relu.0.forward"
    rank = {"Module.a.A.forward.0": call([A], [A])}
    file, _, report = merged(tmp_path, Layout(2, 2), {**rank, name: call([A], [A])}, rank)
    assert list(file["data"]) == ["Module.a.A.forward.0"]
    assert report["not_on_all_ranks"]["found"] == [{"call": name}]


def test_ranks_that_are_not_there_are_named(tmp_path):
    for rank in range(3):
        write(tmp_path / "dump" / f"rank{rank}", {"Module.a.A.forward.0": call([A], [A])})
    with pytest.raises(UsageError, match=r"of the 4 ranks .* 3 is missing"):
        merge_sides(tmp_path / "dump", None, Layouts(Layout(4, 2)), tmp_path / "out")
    with pytest.raises(UsageError, match="also contains rank 2"):
        merge_sides(tmp_path / "dump", None, Layouts(Layout(2, 2)), tmp_path / "out")


def test_functions_alone_are_not_merged(tmp_path):
    for rank in range(2):
        write(tmp_path / "dump" / f"rank{rank}", {})
    with pytest.raises(DumpError, match="collect with level L0 or mix"):
        merge_sides(tmp_path / "dump", None, Layouts(Layout(2, 2)), tmp_path / "out")


def test_chunks_that_are_not_told_apart_are_refused(tmp_path):
    with pytest.raises(DumpError, match="--vpp 2"):
        merged(tmp_path, Layout(2, 1, 2, 2), stage(0), stage(0))


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("compare DUMP DUMP --rank_size 2 --tp 2 --calibrate DUMP", "cannot be combined"),
        ("report DUMP --rank_size 2 --tp 2", "add the golden dump"),
        ("graph_visualize -tp DUMP --file_type json -o OUT", "give --rank-size"),
        ("graph_visualize -tp DUMP -gp DUMP --rank_size 2 --tp 2 --file_type json -o OUT", "omit -gp"),
        ("graph_visualize -tp DUMP --rank_size 2 2 --tp 2 -o OUT", "one value"),
    ],
)
def test_commands_refuse_what_does_not_fit(tmp_path, capsys, verb, said):
    for rank in range(2):
        write(tmp_path / "dump" / f"rank{rank}", {"Module.a.A.forward.0": call([A], [A])})
    words = verb.replace("DUMP", str(tmp_path / "dump")).replace("OUT", str(tmp_path / "out")).split()
    if words[0] in ("compare", "report"):
        words += ["-o", str(tmp_path / ("out" if words[0] == "compare" else "page.html"))]
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_copies_that_differ_are_a_finding_of_the_comparison(tmp_path):
    name = "Module.norm.LayerNorm.forward.0"
    for rank, value in ((0, A), (1, B)):
        write(tmp_path / "target" / f"rank{rank}", {name: call([A], [value])})
    write(tmp_path / "golden" / "rank", {name: call([A], [A])})
    request = Request(
        tmp_path / "target", tmp_path / "golden", tmp_path / "out", layouts=Layouts(Layout(2, 2), Layout())
    )
    result = compare_paths(request)
    answer = answer_of(result, request)
    [found] = [each for each in answer.findings if each.kind is kinds.REPLICAS_DIFFER]
    assert (found.place.name, found.place.record) == (name, "output.0")
    assert (found.fields["side"], found.fields["places"]) == ("target", 1)
    assert answer.state == "differs"
    assert not result.copies_agree


def test_copies_that_differ_are_the_answer_where_nothing_else_is(tmp_path):
    replicas = Finding(kinds.REPLICAS_DIFFER, Place("Module.norm.LayerNorm.forward.0"), "copies differ")
    note = Finding(kinds.ON_SEVERAL_STAGES, Place("Module.tied.Linear.forward.0"), "on two stages")
    result = RequestResult((), merging=(replicas, note))
    answer = answer_of(result, Request(tmp_path, tmp_path))
    assert (answer.state, answer.line, answer.first) == ("differs", "copies differ", replicas)
    assert (answer.harmless, answer.next, answer.omitted) == ((note,), (), 0)
    assert list(result.lines())[-1] == "copies differ"
