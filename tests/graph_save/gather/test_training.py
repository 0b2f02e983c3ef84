"""`msprobe gather` on what MindSpore really writes: three training steps of several nets, each in its own process."""

import ast
import json
import os
import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from preloaded import python

from msprobe.cli import main
from msprobe.store.reader import load_tensor, read
from msprobe.store.stacks_and_construct import user_line

pytestmark = pytest.mark.mindspore

SCRIPT = Path(__file__).parents[2] / "training" / "kernel_dump.py"
DOCS = Path(__file__).parents[3] / "docs"
RUNS = {
    "mlp": ("mlp", "O0"),
    "again": ("mlp", "O1"),
    "faulty": ("mlp", "O0", "faulty"),
    "conv": ("conv", "O1"),
    "flow": ("flow", "O0"),
    "odd": ("odd", "O0"),
    "listed": ("mlp", "O0", "ReLU", "name-regex(.*fc1-Dense/.*)", "MatMull"),
}
STEPS = (0, 1, 2)


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    """Folder with NAME/raw and NAME/out for each of the runs; two of them train at a time."""
    root = tmp_path_factory.mktemp("kernels")
    waiting = list(RUNS.items())
    while waiting:
        pair, waiting = waiting[:2], waiting[2:]
        started = []
        for name, (net, level, *words) in pair:
            command = [python("mindspore"), str(SCRIPT), net, level, str(root / name / "raw"), *words]
            (root / name).mkdir()
            log = (root / name / "log").open("w")
            environment = {k: v for k, v in os.environ.items() if k != "MINDSPORE_DUMP_CONFIG"}
            started.append((name, log, subprocess.Popen(command, stdout=log, stderr=log, env=environment)))
        for name, log, process in started:
            assert process.wait(300) == 0, (root / name / "log").read_text()
            log.close()
    for name in RUNS:
        main(["gather", str(root / name / "raw"), "-o", str(root / name / "out")])
    return root


def dumps(gathered, name):
    return [read(gathered / name / "out" / f"step{step}") for step in STEPS]


def entries(dump):
    return json.loads(Path(dump.where).read_text())["data"]


def lines_of(words):
    """The source text -> line number of each line of the script that runs in a graph."""
    text = SCRIPT.read_text().splitlines()
    found = {}
    for number, line in enumerate(text, 1):
        found.setdefault(line.strip(), []).append(number)
    return [number for word in words for number in found[word]]


def line(text):
    (number,) = lines_of([text])
    return str(SCRIPT), number


@pytest.mark.parametrize("name", ["mlp", "conv", "flow", "odd"])
def test_every_file_is_a_record_and_nothing_is_lost(name, gathered):
    raw = gathered / name / "raw" / "rank_0" / "Net"
    for step, dump in zip(STEPS, dumps(gathered, name), strict=True):
        files = [file for graph in raw.iterdir() for file in graph.glob(f"{step}/*.npy")]
        tensors = [record for call in dump.calls for record in call.records if record.file]
        unread = [record for entry in entries(dump).values() for record in entry.get("unread", {}).values()]
        assert len(tensors) + len(unread) == len(files) > 100
        assert dump.missing == ()


@pytest.mark.parametrize("name", ["mlp", "conv", "odd"])
def test_every_kernel_of_the_execution_order_is_there_under_its_full_name(name, gathered):
    order = gathered / name / "raw/rank_0/execution_order/ms_execution_order_graph_0.csv"
    planned = order.read_text().split()[1:]
    for dump in dumps(gathered, name):
        kernels = [e["kernel"] for e in entries(dump).values() if "kernel" in e]
        assert sorted(k["name"] for k in kernels) == sorted(planned)
        assert [k["time"] for k in kernels] == sorted(k["time"] for k in kernels)


@pytest.mark.parametrize("name", ["mlp", "conv", "flow", "odd"])
def test_what_a_kernel_was_given_is_what_its_source_gave_bit_by_bit(name, gathered):
    """This holds only if every file is joined with the right node of the graph, and every run with the right one."""
    checked = 0
    for dump in dumps(gathered, name):
        held = {f"{c.name}.{r.part}.{'.'.join(r.path)}": r for c in dump.calls for r in c.records}
        for record in held.values():
            if record.source.startswith("call "):
                source = held[record.source.removeprefix("call ")]
                argument, gave = load_tensor(dump, record), load_tensor(dump, source)
                assert (argument.dtype, argument.tobytes()) == (gave.dtype, gave.tobytes()), (
                    record.name,
                    record.source,
                )
                checked += 1
    assert checked > 50


@pytest.mark.parametrize("name", ["mlp", "conv", "flow", "odd"])
def test_a_kernel_comes_behind_what_it_was_given(name, gathered):
    for dump in dumps(gathered, name):
        place = {call.name: at for at, call in enumerate(dump.calls)}
        for at, call in enumerate(dump.calls):
            for record in call.records:
                if record.source.startswith("call "):
                    assert place[record.source.removeprefix("call ").rpartition(".output.")[0]] < at


NET = "Kernel.{}Default.network-WithLoss.net-{}.{}"
LINES = {
    "mlp": [
        (NET.format("", "Mlp", "fc1-Dense.MatMul.0"), "h = self.fc1(x)"),
        (NET.format("", "Mlp", "norm-LayerNorm.LayerNorm.0"), "h = self.norm(h)"),
        (NET.format("", "Mlp", "ReLU.0"), "h = ops.relu(h)"),
        (NET.format("", "Mlp", "fc2-Dense.BiasAdd.0"), "return self.fc2(h)"),
        (NET.format("Gradients.", "Mlp", "Grad_ReLU.ReluGrad.0"), "h = ops.relu(h)"),
        (NET.format("Gradients.", "Mlp", "norm-LayerNorm.Grad_LayerNorm.LayerNormGrad.0"), "h = self.norm(h)"),
    ],
    "conv": [
        (NET.format("", "Conv", "conv-Conv2d.Conv2D.0"), "h = self.conv(x)"),
        (NET.format("", "Conv", "bn-BatchNorm2d.BatchNorm.0"), "h = ops.relu(self.bn(h))"),
        (NET.format("Gradients.", "Conv", "bn-BatchNorm2d.Grad_BatchNorm.BatchNormGrad.0"), "h = ops.relu(self.bn(h))"),
        (NET.format("Gradients.", "Conv", "flat-Flatten.Grad_Flatten.Reshape.0"), "return self.fc(self.flat(h))"),
    ],
    "flow": [
        (NET.format("", "Flow", "fc-Dense.MatMul.0"), "x = ops.tanh(self.fc(x))"),
        (NET.format("", "Flow", "fc-Dense.MatMul.round1.0"), "x = ops.tanh(self.fc(x))"),
        (NET.format("", "Flow", "Exp.0"), "x = ops.exp(x)"),
        (NET.format("Gradients.", "Flow", "Grad_Exp.Mul.0"), "x = ops.exp(x)"),
        (NET.format("Gradients.", "Flow", "Grad_Tanh.TanhGrad.round1.0"), "x = ops.tanh(self.fc(x))"),
    ],
}


@pytest.mark.parametrize("name", LINES)
def test_kernels_have_the_users_line_gradients_that_of_their_forward(name, gathered):
    for dump in dumps(gathered, name):
        stacks = {call.name: call.stack for call in dump.calls}
        for call, text in LINES[name]:
            assert user_line(stacks[f"{call}.forward"]) == line(text), call


def test_a_gradient_has_the_line_of_its_own_layer_whatever_its_scope_says(gathered):
    """MindSpore gives the gradients of both Dense the scope of fc2; the lines tell them apart."""
    dump = dumps(gathered, "mlp")[0]
    grads = [call for call in dump.calls if "Grad_BiasAdd.BiasAddGrad" in call.name]
    assert {user_line(call.stack) for call in grads} == {line("h = self.fc1(x)"), line("return self.fc2(h)")}
    assert all("fc2-Dense" in call.name for call in grads)


@pytest.mark.parametrize("name", ["mlp", "conv", "flow", "odd"])
def test_only_the_optimizer_and_what_the_graph_knows_no_line_of_has_none_of_the_users(name, gathered, capsys):
    main(["gather", str(gathered / name / "raw"), "-o", str(gathered / name / "out")])
    printed = capsys.readouterr().out.splitlines()
    for dump, expected in zip(dumps(gathered, name), printed, strict=True):
        kernels = {call.name: call for call in dump.calls if "kernel" in entries(dump)[call.name]}
        without = {n for n, call in kernels.items() if user_line(call.stack) is None}
        optimizer = {n for n in kernels if ".optimizer-" in n}
        assert optimizer <= without
        assert all("cell_wrapper.py" in str(kernels[n].stack) for n in optimizer), "where the optimizer is called"
        assert "only source lines of the framework for Default/optimizer-" in expected
        rest = without - optimizer
        if name == "flow":
            assert {n.split(".")[-3] for n in rest if "round" not in n} == {"Less", "TensorMove"}
            assert (
                "the graph has no source line for Default/network-WithLoss/net-Flow/Less-op0, Default/TensorMove-op1;"
                in expected
            )
        else:
            assert rest == set()


def test_a_loop_is_rounds_and_a_branch_that_was_not_taken_is_not_missing(gathered):
    for dump in dumps(gathered, "flow"):
        names = Counter(call.name for call in dump.calls)
        stem = "Kernel.Default.network-WithLoss.net-Flow"
        assert names[f"{stem}.Less.0.forward"] == names[f"{stem}.Less.round1.0.forward"] == 1
        assert names[f"{stem}.Less.round2.0.forward"] == 1, "the condition runs once more than the body"
        assert f"{stem}.Tanh.round1.0.forward" in names
        assert f"{stem}.Tanh.round2.0.forward" not in names
        assert not any(".Sin." in name for name in names)


def test_what_a_kernel_writes_in_place_stands_among_its_results(gathered):
    first, second, _ = dumps(gathered, "mlp")
    adam = next(call for call in first.calls if call.name == "Kernel.Default.optimizer-Adam.Adam.0.forward")
    left = next(record for record in adam.records if record.path == ("in_place", "0"))
    dense = "Kernel.Default.network-WithLoss.net-Mlp.fc1-Dense.MatMul.0.forward.input.1"
    before, after = (
        load_tensor(dump, next(r for call in dump.calls for r in call.records if r.name == dense))
        for dump in (first, second)
    )
    assert not np.array_equal(before, after)
    np.testing.assert_array_equal(load_tensor(first, left), after)
    assert adam.missing == ("input.0", "input.1", "input.2")


def test_outputs_that_the_optimizer_leaves_unwritten_are_no_results(gathered):
    """They hold what was in the memory, which differs from run to run, and nothing in the graph reads them."""
    for name, kind, slots in (("mlp", "Adam", "012"), ("conv", "ApplyMomentum", "0")):
        found = entries(dumps(gathered, name)[0])
        of_kind = [entry for entry in found.values() if entry.get("kernel", {}).get("type") == kind]
        assert len(of_kind) >= 5
        for entry in of_kind:
            assert list(entry["output"]) == ["in_place"]
            assert list(entry["unread"]) == list(slots)
            assert not any("data_name" in record for record in entry["unread"].values())
        norm = [entry for entry in found.values() if entry.get("kernel", {}).get("type") == "LayerNorm"]
        assert not any("unread" in entry for entry in norm), "what is not written in place is compared, read or not"


def test_recomputed_kernels_are_marked_and_odd_types_are_read(gathered):
    dump = dumps(gathered, "odd")[0]
    again = [call.name for call in dump.calls if call.is_recompute]
    assert len(again) == 2
    assert all(name.startswith("Kernel.recompute_Default.") and name.endswith(".1.forward") for name in again)
    dtypes = Counter(record.dtype for call in dump.calls for record in call.records)
    assert dtypes["BFloat16"] == 4
    assert min(dtypes["Float16"], dtypes["Float64"]) > 3
    (exp,) = [
        c for c in dump.calls if entries(dump)[c.name].get("kernel", {}).get("type") == "Exp" and "Grad" not in c.name
    ]
    argument, gave = (load_tensor(dump, record) for record in exp.records)
    np.testing.assert_allclose(gave, np.exp(argument), rtol=1e-5)


def test_two_runs_of_one_program_are_equal_whatever_the_order_of_their_kernels(gathered, tmp_path, capsys):
    for step in STEPS:
        capsys.readouterr()
        sides = [str(gathered / name / "out" / f"step{step}") for name in ("again", "mlp")]
        assert main(["compare", "-tp", sides[0], "-gp", sides[1], "-o", str(tmp_path)]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "no difference: 186 pairs judged, 0 unjudged"


def in_another_order(folder, into, seed):
    """A copy of a step with its kernels in another order, each behind what it is given."""
    shutil.copytree(folder, into)
    path = into / "rank0" / "dump.json"
    whole = json.loads(path.read_text())
    entries, chosen = whole["data"], random.Random(seed)
    kernels = [name for name in entries if name.startswith("Kernel.")]
    given = {name: set(re.findall(r'"call ([^"]+?)\.output\.', json.dumps(entries[name]))) for name in kernels}
    order = []
    while len(order) < len(kernels):
        order.append(chosen.choice([name for name in kernels if name not in order and given[name] <= set(order)]))
    assert order != kernels
    whole["data"] = {name: entries[name] for name in (*order, *(name for name in entries if name not in order))}
    path.write_text(json.dumps(whole))


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_kernels_that_do_not_depend_on_each_other_says_nothing(seed, gathered, tmp_path, capsys):
    """Two compilations of one program may order them differently; a fault is named all the same."""
    in_another_order(gathered / "mlp" / "out" / "step0", tmp_path / "step0", seed)

    def answer(golden):
        sides = [str(tmp_path / "step0"), str(gathered / golden / "out" / "step0")]
        main(["compare", "-tp", sides[0], "-gp", sides[1], "-o", str(tmp_path)])
        return capsys.readouterr().out.splitlines()[-1]

    assert answer("again") == "no difference: 186 pairs judged, 0 unjudged"
    wrong = "Kernel.Default.network-WithLoss.net-Mlp.norm-LayerNorm.LayerNorm.0.forward"
    assert answer("faulty").startswith(f"first wrong call: {wrong} in the root: argument differs: input.5 ")


def test_the_first_wrong_call_of_a_faulty_net_is_the_kernel_and_the_line_of_the_fault(gathered, tmp_path, capsys):
    sides = [str(gathered / name / "out" / "step0") for name in ("faulty", "mlp")]
    assert main(["compare", "-tp", sides[0], "-gp", sides[1], "-o", str(tmp_path)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    kernel = "Kernel.Default.network-WithLoss.net-Mlp.norm-LayerNorm.LayerNorm.0.forward"
    assert last.startswith(f"first wrong call: {kernel} in the root: argument differs: input.5 ")
    file, number = line("h = self.norm(h)")
    assert last.endswith(f"({file}:{number})")


def test_a_mistyped_name_is_reported_and_the_others_are_gathered(gathered, capsys):
    raw = gathered / "listed" / "raw"
    assert main(["gather", str(raw), "-o", str(gathered / "listed" / "out")]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"{raw}/rank_0: kernels: 'MatMull' matches no kernel; did you mean MatMul?"
    for dump in dumps(gathered, "listed"):
        kinds = Counter(e["kernel"]["type"] for e in entries(dump).values() if "kernel" in e)
        assert kinds == {"MatMul": 1, "BiasAdd": 1, "ReLU": 1, "ReluGrad": 1}
        assert dump.missing == ()


def shown(page):
    """The blocks of a page that show a command or its answer."""
    return re.findall(r"^```\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_the_command_says_in_both_languages(gathered, tmp_path, capsys):
    assert shown("zh/how-to/collecting/gather.md") == shown("en/how-to/collecting/gather.md")
    _, result, _, wrong, _ = shown("en/how-to/collecting/gather.md")
    main(["gather", str(gathered / "mlp" / "raw"), "-o", str(tmp_path / "dump"), "--step", "0"])
    assert capsys.readouterr().out.replace(str(tmp_path / "dump"), "dump") == result
    sides = [str(gathered / name / "out" / "step0") for name in ("faulty", "mlp")]
    main(["compare", "-tp", sides[0], "-gp", sides[1], "-o", str(tmp_path)])
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.sub(r"\(.*", "", last) == re.sub(r"\(.*", "", wrong.strip())


def test_the_script_has_each_of_the_lines_once():
    ast.parse(SCRIPT.read_text())
    for pairs in LINES.values():
        for _, text in pairs:
            assert len(lines_of([text])) == 1, text
