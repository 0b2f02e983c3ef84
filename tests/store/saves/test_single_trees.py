"""`store/saves/single_saves.py`: single saves of both dialects become one dump for each step and rank."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor
from msprobe.store.saves.single_saves import Place, read_single, single_dumps, single_tree, stem_of, write

SAMPLE = Path(__file__).parents[2] / "samples" / "single_save"


def save(root, *names):
    """One file for each name, which holds its place in the list."""
    for number, name in enumerate(names):
        path = root / "data" / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.float32([number]))
    return root


def read(root, **how):
    return {at: read_single(folders, *at, **how) for at, folders in single_dumps(root).items()}


def only(root, **how):
    (dump,) = read(root, **how).values()
    return dump


def values(dump):
    return {r.name: load_tensor(dump, r).item() for call in dump.calls for r in call.records}


def rows(dump):
    return [record.name for call in dump.calls for record in call.records]


def test_the_tree_of_the_other_tool_is_read():
    dumps = read(SAMPLE)
    assert {at: rows(dump) for at, dump in dumps.items()} == {
        (0, 0): ["response.0.debug", "response.1.debug"],
        (1, 0): ["response.0.debug", "response.1.debug"],
        (2, 0): [
            "alone.0.debug",
            "dict.0.debug.a",
            "dict.0.debug.b",
            "half.0.debug",
            "list.0.debug.0",
            "list.0.debug.1",
            "none.1.debug",
            "numbered.3.debug",
            "tuple.0.debug.0",
            "tuple.0.debug.1",
        ],
    }
    record = dumps[2, 0].calls[0].records[0]
    np.testing.assert_array_equal(
        load_tensor(dumps[2, 0], record), np.load(SAMPLE / "data/alone/step2/rank0/alone.npy")
    )
    report = json.loads((SAMPLE / "data/alone/step2/rank0/alone.json").read_text())["data"]
    assert list(record.shape) == report["shape"]
    assert (dumps[2, 0].level, dumps[2, 0].task, dumps[2, 0].step, dumps[2, 0].rank) == ("debug", "tensor", 2, 0)


@pytest.mark.parametrize("path", ["", "data"])
def test_what_our_own_writer_wrote_is_read(path, tmp_path):
    x = np.float32([1.5])
    for micro_step in (10, 9):
        write(tmp_path, Place("a/b", 3, 1, micro_step), x)
    write(tmp_path, Place("list.of", 3, 1, 0), [x] * 11)
    write(tmp_path, Place("dict", 3, 1), {"k.1": x})
    ((at, folders),) = single_dumps(tmp_path / path).items()
    dump = read_single(folders, *at)
    stem = stem_of("a/b")
    assert at == (3, 1)
    assert rows(dump) == [
        f"{stem}.9.debug",
        f"{stem}.10.debug",
        "dict.0.debug.k.1",
        *(f"list.of.0.debug.{n}" for n in range(11)),
    ]
    assert set(values(dump).values()) == {1.5}


def test_saves_without_a_micro_step_stand_beside_those_with_one(tmp_path):
    dump = only(save(tmp_path, "x/step0/rank0/x", "x/step0/rank0/micro_step0/x", "x/step0/rank0/micro_step1/x"))
    assert values(dump) == {"x.0.debug": 1, "x.1.debug": 2, "x.2.debug": 0}


def test_ids_of_the_process_do_not_pair_but_order_does(tmp_path):
    one = save(
        tmp_path / "one",
        "advantages/step0/rank0/advantages_float32_0",
        "advantages/step0/rank0/advantages_float32_7",
        "text/step0/rank0/text_uint8_1",
    )
    other = save(
        tmp_path / "other",
        "advantages/step0/rank0/advantages_float32_9",
        "advantages/step0/rank0/advantages_float32_12",
        "text/step0/rank0/text_uint8_10",
    )
    expected = {"advantages.0.debug": 0, "advantages.1.debug": 1, "text.0.debug": 2}
    assert values(only(one)) == values(only(other)) == expected


def test_elements_are_records_of_one_call_in_both_dialects(tmp_path):
    dump = only(
        save(
            tmp_path,
            "a/step0/rank0/micro_step0/a.0",
            "a/step0/rank0/micro_step0/a.1",
            "b/step0/rank0/b.0_int32_3",
            "b/step0/rank0/b.1_int32_4",
            "old/step0/rank0/micro_step0/old0",
            "odd/step0/rank0/micro_step0/else",
        )
    )
    assert rows(dump) == [
        "a.0.debug.0",
        "a.0.debug.1",
        "b.0.debug.0",
        "b.0.debug.1",
        "odd.0.debug.else",
        "old.0.debug.0",
    ]


def test_a_key_that_looks_like_a_graph_save_is_itself(tmp_path):
    write(tmp_path, Place("x_float32_1", 0, 0), np.float32([1]))
    write(tmp_path, Place("d", 0, 0), {"0_int32_3": np.float32([2])})
    assert values(only(tmp_path)) == {"d.0.debug.0_int32_3": 2, "x_float32_1.0.debug": 1}


def test_the_index_of_graph_saves_is_used(tmp_path):
    root = save(tmp_path, "z/step0/rank0/z_grad_float32_0", "z/step0/rank0/z_grad_float32_1")
    lines = [
        {"name": "z_grad", "count": 1 - n, "id": n, "type": "t", "data_name": f"z_grad_float32_{n}.npy"} for n in (0, 1)
    ]
    (root / "data/z/step0/rank0/saves.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert values(only(root)) == {"z_grad.1.debug": 0, "z_grad.0.debug": 1}
    assert values(only(root, by_index=False)) == {"z_grad.0.debug": 0, "z_grad.1.debug": 1}


def test_steps_and_ranks_are_dumps_of_their_own_and_nothing_else_is(tmp_path):
    save(tmp_path, "x/step10/rank1/x", "x/step2/rank0/x", "y/step2/rank0/y", "x/other/rank0/x", "x/step0/other/x")
    dumps = read(tmp_path)
    assert list(dumps) == [(2, 0), (10, 1)]
    assert rows(dumps[2, 0]) == ["x.0.debug", "y.0.debug"]


def test_bad_files_are_records_that_cannot_be_opened(tmp_path):
    save(tmp_path, "x/step0/rank0/micro_step0/x.0")
    folder = tmp_path / "data/x/step0/rank0/micro_step0"
    (folder / "x.1.npy").write_bytes(b"not numpy")
    (folder / "x.2.npy").symlink_to(folder / "x.0.npy")
    dump = only(tmp_path)
    assert rows(dump) == ["x.0.debug.0", "x.0.debug.1", "x.0.debug.2"]
    for record in dump.calls[0].records[1:]:
        assert (record.dtype, record.shape) == ("", None)
        with pytest.raises(DumpError):
            load_tensor(dump, record)


def test_a_tag_of_several_folders_is_one_name(tmp_path):
    dump = only(
        save(
            tmp_path,
            "a/b/step0/rank/b",
            "c/b/step0/rank/b_float32_7",
            "c/b/step0/rank/b.1_float32_8",
            "data/step0/rank/data",
        )
    )
    assert values(dump) == {"a/b.0.debug": 0, "c/b.0.debug": 1, "c/b.0.debug.1": 2, "data.0.debug": 3}


def test_a_run_may_call_its_own_folder_data(tmp_path):
    save(tmp_path / "data", "x/step0/rank0/x", "y/step0/rank0/y")
    for root in (tmp_path, tmp_path / "data" / "data"):
        assert values(only(root)) == {"x.0.debug": 0, "y.0.debug": 1}


def test_dots_of_a_key_are_no_positions(tmp_path):
    names = ("a.3_float32_4", "a.3.0_float32_5", "a.3.1_float32_6", "a.3_grad_float32_7")
    dump = only(save(tmp_path, *(f"a.3/step0/rank0/{name}" for name in names)))
    assert values(dump) == {"a.3.0.debug": 0, "a.3.0.debug.0": 1, "a.3.0.debug.1": 2, "a.3_grad.0.debug": 3}
    dump = only(save(tmp_path / "grad", "z.w_grad/step0/rank0/z.w_grad_int8_2"))
    assert values(dump) == {"z.w_grad.0.debug": 0}


def test_graph_saves_in_micro_steps_do_not_pair_by_id_either(tmp_path):
    names = (f"x/step0/rank0/micro_step{n // 2}/x_float32_{20 - n % 2 + n // 2 * 10}" for n in range(4))
    assert values(only(save(tmp_path, *names))) == {f"x.{n}.debug": v for n, v in enumerate((1, 0, 3, 2))}


def test_links_to_folders_are_followed_only_where_that_is_asked_for(tmp_path):
    save(tmp_path / "elsewhere", "x/step0/rank0/x")
    (tmp_path / "data" / "y").mkdir(parents=True)
    (tmp_path / "data" / "x").symlink_to(tmp_path / "elsewhere" / "data" / "x")
    assert single_dumps(tmp_path) == {}
    assert single_tree(tmp_path / "data").spots == ()
    (spot,) = single_tree(tmp_path / "data", follow=True).spots
    assert (spot.tag, spot.inside, spot.folder.files) == ("x", "x/step0/rank0", ("x.npy",))


def test_links_in_a_circle_end(tmp_path, capsys):
    for one, other in ("ab", "ba"):
        save(tmp_path, f"{one}/step0/rank0/{one}")
        (tmp_path / "data" / one / "other").symlink_to(tmp_path / "data" / other)
    (tmp_path / "data" / "a" / "up").symlink_to(tmp_path)
    tree = single_tree(tmp_path / "data", follow=True)
    assert sorted(spot.tag for spot in tree.spots) == ["a", "a/other", "b", "b/other"]
    assert "up: is a symbolic link to a folder that contains it and is not followed" in capsys.readouterr().err


def test_files_that_stand_nowhere_are_strangers(tmp_path):
    names = ("astray", "x/step0/astray", "x/step0/rank0/x", "x/step0/rank0/deeper/astray", "step0/rank0/astray")
    tree = single_tree(save(tmp_path, *names) / "data")
    assert [spot.inside for spot in tree.spots] == ["x/step0/rank0"]
    assert sorted(str(path.relative_to(tree.data)) for path in tree.strangers) == sorted(
        f"{name}.npy" for name in names if name.endswith("astray")
    )


def test_what_lies_too_deep_is_said(tmp_path, capsys):
    tags = ["/".join("abcdefgh"), "/".join("abcdefghi")]
    tree = single_tree(save(tmp_path, *(f"{tag}/step0/rank0/x" for tag in tags)) / "data")
    assert [spot.tag for spot in tree.spots] == tags[:1]
    assert "folders more than 10 levels below" in capsys.readouterr().err


def test_an_index_that_is_a_pipe_is_none(tmp_path):
    root = save(tmp_path, "z/step0/rank0/z_float32_0")
    os.mkfifo(root / "data/z/step0/rank0/saves.jsonl")
    assert values(only(root)) == {"z.0.debug": 0}
