"""Damaged and odd roots: a sentence and an exit code, never a traceback."""

import os

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.part(3)]

UPDATE = "actor_update"


@pytest.mark.parametrize("text", ["", "{", "[1, 2", "[" * 50_000, '{"a": NaN, "b": 1e999}', "\x00"])
def test_a_broken_configuration_does_not_stop_the_rest(text, roots, compare):
    for root in roots:
        root.save()
    (roots[0].path / "configurations.json").write_text(text)
    code, lines, _ = compare()
    assert code == 0
    assert lines[0].startswith("configurations: ")
    assert lines[-1] == "no difference: 8 pairs judged, 0 unjudged"


def test_a_configuration_that_is_a_folder_is_said(roots, compare):
    for root in roots:
        root.save().dump(UPDATE)
    (roots[0].path / "configurations.json").unlink()
    (roots[0].path / "configurations.json").mkdir()
    code, lines, _ = compare()
    assert code == 0
    assert lines[0] == "configurations: configurations.json is only on the golden side"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b'{"data": 3}', b'{"task": "statistics", "data": {"x": []}}']
)
def test_a_broken_dump_of_a_stage_is_said(content, roots, changed, compare, summary):
    roots[0].save(loss=changed("loss", (), 0.25)).dump(UPDATE)
    roots[1].save().dump(UPDATE)
    (roots[0].path / UPDATE / "step0" / "rank0" / "dump.json").write_bytes(content)
    code, lines, _ = compare()
    assert code == 1
    assert "key loss (error" in summary(lines)["first difference"] or UPDATE in summary(lines)["first difference"]
    assert any(UPDATE in line for line in lines)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"text" * 100])
def test_a_broken_tensor_is_unjudged(content, roots, compare):
    for root in roots:
        root.save()
    (roots[0].path / "data/responses/step0/rank0/micro_step0/responses.npy").write_bytes(content)
    code, lines, whole = compare()
    assert code == 1
    why = "1 in files that are missing or cannot be read"
    assert lines[-1] == f"no difference in what could be judged: 7 pairs judged, 1 not: {why}"
    assert {at["role"] for at in whole["walk"] if at["key"] == "responses"} == {"unjudged"}


def test_what_was_not_judged_before_the_first_difference_is_said(roots, changed, compare):
    roots[0].save(loss=changed("loss", (), 0.25))
    roots[1].save()
    (roots[0].path / "data/responses/step0/rank0/micro_step0/responses.npy").write_bytes(b"")
    assert "not judged before it: key responses" in compare()[1]


def test_links_are_not_followed(roots, compare):
    for root in roots:
        root.save()
    roots[0].dump("elsewhere")
    os.symlink(roots[0].path / "elsewhere", roots[0].path / UPDATE)
    os.symlink(roots[0].path, roots[0].path / "data" / "round")
    code, lines, _ = compare()
    assert code == 1
    assert [line for line in lines if line.startswith("missing")] == [
        "missing: stage elsewhere has a dump only on the target side"
    ]


def test_empty_folders_are_no_difference(roots, compare):
    for root in roots:
        root.save()
        (root.path / "data" / "empty" / "step0" / "rank0").mkdir(parents=True)
        (root.path / "logs").mkdir()
    (roots[0].path / "data" / "hollow" / "step9").mkdir(parents=True)
    assert compare()[0] == 0


@pytest.mark.parametrize("name", ["=1+2", "-rf", "a b", "\x1b[31m", "键", "\udcff", "a.b", "x" * 200, "step0", "..."])
def test_odd_names_of_keys_and_stages(name, roots, compare, summary):
    try:
        for at, root in enumerate(roots):
            folder = root.save().path / "data" / name / "step0" / "rank0"
            folder.mkdir(parents=True)
            (folder / "x.npy").write_bytes((root.path / "data/loss/step0/rank0/micro_step0/loss.npy").read_bytes())
            root.dump(name, made=(2.0, 3.0, 4.0 + at))
    except (OSError, UnicodeError) as err:
        pytest.skip(f"this file system takes no such name: {err}")
    code, lines, _ = compare("--format", "json")
    assert code == 1
    assert summary(lines)["first difference"].startswith("step 0, rank 0, stage ")
    assert summary(lines)["first wrong call"].startswith("Cell.head.Dense.forward.0")
    assert "\x1b" not in "".join(lines)


def test_a_key_of_bytes_that_are_no_text_is_told(roots, compare):
    try:
        for at, root in enumerate(roots):
            folder = root.save().path / "data" / "\udcff" / "step0" / "rank0"
            folder.mkdir(parents=True)
            np.save(folder / "x.npy", np.array([at]))
    except (OSError, UnicodeError) as err:
        pytest.skip(f"this file system takes no such name: {err}")
    code, lines, _ = compare()
    assert code == 1
    assert lines[-2:] == [
        "why: no call can be located: the stage of the key ? is unknown",
        "look at: the code that produces ?",
    ]
    "".join(lines).encode("utf-8")


def test_an_output_that_cannot_be_written_is_said(roots, compare, tmp_path):
    for root in roots:
        root.save()
    (tmp_path / "out").write_text("")
    code, lines, _ = compare()
    assert code == 2
    assert "give another folder with -o" in lines[0]


def test_a_root_without_anything_is_refused(roots, compare):
    roots[0].save()
    (roots[1].path / "configurations.json").unlink()
    code, lines, _ = compare()
    assert code == 2
    assert "no such file or folder" in lines[0] or "contains nothing that can be compared" in lines[0]
