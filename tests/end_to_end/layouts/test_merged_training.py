"""Ranks of a real training, merged: what numpy makes of the tensors of one process is what the merged dump says."""

import json
import re
import sqlite3
from pathlib import Path

import pytest
import torch
from merged_files import read, tensors

from msprobe.cli import main
from msprobe.compare.core.layouts import Layout, Layouts
from msprobe.compare.dispatch import compare_paths
from msprobe.compare.parallel.merge import merge_sides
from msprobe.compare.request import Request

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        not torch.distributed.is_gloo_available(), reason="the ranks talk by gloo, which is not built in"
    ),
]

FOUR = {"plain": Layout(4, 2, 2), "virtual": Layout(4, 2, 2, 2), "sequence": Layout(4, 2, 2)}
WORDS = ("--rank_size", "4", "1", "--tp", "2", "1", "--pp", "2", "1")


@pytest.fixture(scope="module")
def merged(trained, tmp_path_factory):
    """`merged(run)` is the folder of the merged rank of a run's first step, held to the training of one process."""
    made = {}

    def folder(run):
        if run not in made:
            root = tmp_path_factory.mktemp(run)
            layouts = Layouts(FOUR[run], Layout())
            made[run] = merge_sides(trained[run] / "step0", trained["whole"] / "step0", layouts, root).target / "rank0"
        return made[run]

    return folder


@pytest.fixture
def compared(trained, tmp_path):
    """`compared(run, step)`: the result of comparing a step of a run with the training of one process."""

    def result(run, step, golden="whole", layouts=None):
        layouts = layouts or Layouts(FOUR[run], Layout())
        target, golden = trained[run] / f"step{step}", trained[golden] / "step0"
        return compare_paths(Request(target, golden, tmp_path / "out", "json", layouts=layouts, workers=1))

    return result


def cells(data):
    return [name for name in data if name.startswith("Module.")]


@pytest.mark.parametrize("run", FOUR)
def test_cells_have_the_names_and_the_order_of_one_process(merged, whole, run):
    data = read(merged(run))["data"]
    assert cells(data) == cells(whole[0])
    construct = read(merged(run), "construct.json")
    assert all(construct[name] is None or construct[name] in construct for name in cells(construct))


@pytest.mark.parametrize("run", FOUR)
def test_statistics_of_cells_are_those_of_numpy(merged, whole, run):
    data, by_numpy = read(merged(run))["data"], whole[1]
    without = set()
    for call in cells(whole[0]):
        records = dict(tensors(data[call]))
        for place, _ in tensors(whole[0][call]):
            shape, *numbers = by_numpy[call, place]
            record = records[place]
            assert tuple(record["shape"]) == shape, (call, place)
            if "Max" not in record:
                without.add(re.sub(r"\.\d+", "", call.partition(".parameters_grad")[0]).rpartition(".")[2])
                continue
            found = [record[key] for key in ("Max", "Min", "Mean", "Norm")]
            # Float32 sums in another order; parameters are the same to the bit.
            off = 1e-12 if "parameters" in place else 2e-5
            scale = max(abs(numbers[0]), abs(numbers[1]))
            assert found[:3] == pytest.approx(numbers[:3], rel=0, abs=off * scale), (call, place)
            assert found[3] == pytest.approx(numbers[3], rel=off), (call, place)
            assert "parameters" not in place or found[:2] == numbers[:2]
    # With sequence parallelism gradients of what each rank has a copy of are parts of a sum, which nobody adds up here.
    assert without == ({"LayerNorm", "RowParallelLinear"} if run == "sequence" else set())


def test_a_part_of_a_sum_has_the_statistics_of_what_an_exchange_makes_of_it(merged, whole):
    """The product of a row parallel layer is one; the all-reduce behind it was recorded."""
    data = read(merged("plain"))["data"]
    name = "Functional.linear.1.forward"
    parent = read(merged("plain"), "construct.json")[name]
    assert parent == "Module.decoder.layers.0.self_attention.linear_proj.RowParallelLinear.forward.0"
    (_, *numbers) = whole[1][name, ("output", 0)]
    record = data[name]["output"][0]
    assert [record[key] for key in ("Max", "Min", "Mean", "Norm")] == pytest.approx(numbers, abs=1e-5)


def test_what_cannot_be_merged_says_why(merged):
    file = read(merged("plain"))
    report = read(merged("plain"), "merge.json")
    (reason,) = {item["cause"] for item in file["missing"] if item["part"] == "input.0"}
    assert reason == "a part of a sum was not merged"
    places = {(each["call"], each["place"]) for each in report["part_of_a_sum"]["found"]}
    # Each rank looks up the tokens of its own part of the vocabulary, by its own numbers.
    assert ("Functional.embedding.0.forward", "input.0") in places
    assert all(call.startswith("Functional.embedding.") for call, _ in places)
    assert "replicas_differ" not in report


@pytest.mark.parametrize("run", FOUR)
def test_a_clean_layout_differs_in_nothing(compared, run):
    result = compared(run, 0, "cells" if run == "virtual" else "whole")
    assert result.first is None
    assert result.copies_agree
    (outcome,) = result.outcomes
    assert outcome.counts.get("error", 0) == outcome.counts.get("warning", 0) == 0


def test_a_fault_on_one_tensor_parallel_rank_is_named(compared):
    result = compared("plain", 1)
    assert result.first.findings[0].name == "Functional.linear.10.forward"
    construct = read(Path(result.first.table).parent / "merged" / "target" / "rank0", "construct.json")
    around = construct["Functional.linear.10.forward"]
    assert around == "Module.decoder.layers.2.mlp.linear_fc1.ColumnParallelLinear.forward.0"
    assert result.copies_agree


def test_a_fault_is_named_between_two_runs_of_one_layout(compared):
    result = compared("plain", 1, "plain", Layouts(FOUR["plain"], FOUR["plain"]))
    assert result.first.findings[0].name == "Functional.linear.10.forward"


def test_sequence_parallelism_agrees_with_tensor_parallelism_alone(compared):
    result = compared("sequence", 0, "plain", Layouts(FOUR["sequence"], FOUR["plain"]))
    assert result.first is None
    assert result.copies_agree


def test_a_copy_that_goes_astray_is_found(compared):
    result = compared("plain", 2)
    first = "Module.decoder.layers.0.input_layernorm.LayerNorm.forward.0"
    assert not result.copies_agree
    assert result.first.findings[0].name == first
    report = read(Path(result.first.table).parent / "merged" / "target" / "rank0", "merge.json")
    found = report["replicas_differ"]["found"][0]
    assert (found["call"], found["place"]) == (first, "output.0")
    assert found["distance"] > 1e-4


def test_the_page_of_a_report_has_the_answer(trained, tmp_path, capsys):
    sides = str(trained["plain"] / "step1"), str(trained["whole"] / "step0")
    page = tmp_path / "page.html"
    assert main(["report", *sides, *WORDS, "-o", str(page), "--workers", "1"]) == 1
    assert "first wrong call: Functional.linear.10.forward" in capsys.readouterr().out.splitlines()[-1]
    assert page.stat().st_size > 10_000


def test_one_graph_is_drawn_of_all_ranks(trained, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["-tp", str(trained["plain"] / "step0"), "-gp", str(trained["whole"] / "step0"), *WORDS]
    assert main(["graph_visualize", *words, "-o", str(out)]) == 0
    (path,) = out.iterdir()
    assert str(path) == capsys.readouterr().out.strip()
    with sqlite3.connect(path) as database:
        rows = database.execute("select node_name, matched_node_link, rank from tb_nodes where data_source = 'NPU'")
        drawn = {name: (json.loads(link), rank) for name, link, rank in rows}
    last = "Module.decoder.layers.3.mlp.MLP.forward.1"
    assert drawn[last][0][-1] == last
    assert {rank for _, rank in drawn.values()} == {0}
    assert not any(name.startswith("Distributed.") for name in drawn)


def test_merged_dumps_are_written(trained, whole, tmp_path, capsys):
    words = ["--rank_size", "4", "--tp", "2", "--pp", "2", "--vpp", "2", "--file_type", "json"]
    out = tmp_path / "out"
    assert main(["graph_visualize", "-tp", str(trained["virtual"]), *words, "-o", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    folder = out / "step0" / "rank0"
    assert sorted(p.name for p in folder.iterdir()) == ["construct.json", "dump.json", "merge.json", "stack.json"]
    # The chunks were given as a list; the whole model is its first element.
    names = [name.replace("Module.0.", "Module.") for name in read(folder)["data"]]
    assert names == cells(whole[0])
    layer = read(folder)["data"]["Module.0.decoder.layers.3.mlp.linear_fc1.ColumnParallelLinear.forward.0"]
    assert [p["shape"] for p in layer["parameters"].values()] == [[16, 8], [16]]
    assert layer["output"][0]["shape"] == [6, 2, 16]
