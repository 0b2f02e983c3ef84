"""What `msprobe gather` takes from the settings of the dump: the debugger's task, the kernels asked for."""

import json
import os

import pytest
from kernel_files import add_settings

from msprobe.store.reader import read


def debugger_task(raw, task):
    add_settings(raw, msprobe={"task": task})
    os.utime(raw / "rank_0/.dump_metadata/data_dump.json", (0, 0))


@pytest.mark.parametrize(
    ("debugger", "words", "made"),
    [
        ("statistics", (), "statistics"),
        ("tensor", (), "tensor"),
        ("exception_dump", (), "tensor"),
        ("statistics", ("--task", "tensor"), "tensor"),
        ("tensor", ("--task", "statistics"), "statistics"),
    ],
)
def test_the_task_is_the_debuggers_unless_the_command_says_another(debugger, words, made, gather, raw, out):
    debugger_task(raw, debugger)
    assert gather(raw, *words)[0] == 0
    dump = read(out / "step0")
    assert dump.task == made
    assert len(list(out.rglob("*.npy"))) == (14 if made == "tensor" else 0)
    assert all(record.statistics for call in dump.calls for record in call.records)


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"common_dump_settings": 7}', '{"common_dump_settings": {}, "msprobe": 1}']
)
def test_json_of_others_in_the_folder_is_no_trouble(text, gather, raw, out, capsys):
    (raw / "other.json").write_text(text)
    assert gather(raw) == (0, [f"{out}/step0/rank0: 3 kernels of 1 graph, 14 values"])
    assert len(list(out.rglob("*.npy"))) == 14


def ask(raw, *kernels):
    for file in (raw / "kernel_kbyk_dump.json", raw / "rank_0/.dump_metadata/data_dump.json"):
        file.write_text(json.dumps({"common_dump_settings": {"dump_mode": 1, "kernels": list(kernels)}}))


@pytest.mark.parametrize(
    "kernels",
    [("MatMul", "ReLU"), ("Default/fc-Dense/MatMul-op0",), ("name-regex(.*fc-Dense.*)",), ("matmul",), ()],
)
def test_what_was_asked_for_and_came_is_not_spoken_of(kernels, gather, raw, out):
    ask(raw, *kernels)
    assert gather(raw) == (0, [f"{out}/step0/rank0: 3 kernels of 1 graph, 14 values"])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("Default/fc-Dense/MatMul-op1", "matches no kernel; did you mean Default/fc-Dense/MatMul-op0?"),
        ("Default/fc-Dense/Matmul-op0", "matches no kernel; did you mean Default/fc-Dense/MatMul-op0?"),
        ("MatMull", "matches no kernel; did you mean MatMul?"),
        ("Softmax", "matches no kernel; available: BiasAdd, MatMul, ReLU"),
        ("name-regex(.*fc2.*)", "matches no kernel; available: BiasAdd, MatMul, ReLU"),
        ("name-regex(()", "is not a valid regular expression"),
    ],
)
def test_a_name_that_matches_nothing_is_reported_with_the_nearest(kernel, message, gather, raw):
    ask(raw, "ReLU", kernel)
    code, lines = gather(raw)
    assert code == 1
    assert message in lines[-1]
    assert len(lines) == 2


def test_where_nothing_was_dumped_the_mistyped_name_is_reported_too(gather, raw):
    for file in (raw / "rank_0/Net/0/0").iterdir():
        file.unlink()
    ask(raw, "MatMull")
    assert gather(raw) == (
        1,
        [f"{raw}/rank_0: kernels: 'MatMull' matches no kernel; did you mean MatMul?"],
    )


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("ReLU", "is Default/ReLU-op0, which did not run in the dumped steps"),
        ("name-regex(.*ReLU-op[0-9]+)", "is Default/ReLU-op0, which did not run in the dumped steps"),
        ("Default/ReLU-op0", "or ran under another number, as in graphs after the first; 'name-regex(Default/ReLU-op["),
    ],
)
def test_a_kernel_that_exists_and_did_not_come_is_told_apart(kernel, message, gather, raw):
    for file in (raw / "rank_0/Net/0/0").glob("ReLU*"):
        file.unlink()
    ask(raw, kernel)
    code, lines = gather(raw)
    assert code == 1
    assert f"kernels: {kernel!r} is " in lines[-1]
    assert message in lines[-1]


def test_a_rank_without_files_is_said_beside_one_that_has_some(gather, raw):
    empty = raw / "rank_1/execution_order"
    empty.mkdir(parents=True)
    code, lines = gather(raw)
    assert (code, len(lines)) == (1, 2)
    assert lines[1] == (f"{raw}/rank_1: contains no kernel files; check `iteration` and `kernels` of the dump settings")
