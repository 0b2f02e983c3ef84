"""Configurations of two runs: what differs, by its path, likely explanations first; damage is a sentence."""

import json

import pytest

from msprobe.compare.rl.configurations import NUMERIC, PLACE, compare_configurations, rank_of, rows


@pytest.fixture
def compared(tmp_path):
    """Compare two values, or two texts that are no JSON perhaps."""

    def compare(target, golden):
        paths = tmp_path / "target.json", tmp_path / "golden.json"
        for path, value in zip(paths, (target, golden), strict=True):
            path.write_text(value if isinstance(value, str) else json.dumps(value))
        return compare_configurations(*paths)

    return compare


def test_differences_are_told_by_their_paths(compared):
    found = compared(
        {"actor": {"layers": [1, {"a.b": 2}], "only": None}, "same": [{}, []]},
        {"actor": {"layers": [1, {"a.b": 3}, 4]}, "same": [{}, []]},
    )
    assert {(each.path, each.target, each.golden) for each in found.differences} == {
        ('actor.layers[1]."a.b"', "2", "3"),
        ("actor.layers[2]", None, "4"),
        ("actor.only", "null", None),
    }
    assert found.count == 6


@pytest.mark.parametrize(
    ("ours", "theirs", "is_same"),
    [(1, 1.0, True), (True, 1, False), ("1", 1, False), (float("nan"), float("nan"), True), (0.1, 0.2, False),
     ({}, [], False), (None, 0, False), (10**400, 10**400, True)],
)  # fmt: skip
def test_values_are_the_same_as_json_has_them(ours, theirs, is_same, compared):
    assert (not compared({"x": ours}, {"x": theirs}).differences) == is_same


def test_addresses_of_objects_are_no_difference_and_are_not_shown(compared):
    """As the configurations of another tool, or of an older version, have them."""
    sides = (
        {"act": f"<function gelu at 0x7f{side}>", "hooks": [{f"<a.B object at 0x7f{side}>": 1}], "kind": f"<a.{side}>"}
        for side in ("11aa", "22bb")
    )
    (found,) = compared(*sides).differences
    assert (found.path, found.target, found.golden) == ("kind", '"<a.11aa>"', '"<a.22bb>"')
    (found,) = compared({"act": "<function f at 0x7f11aa>"}, {"act": "<function g at 0x7f11aa>"}).differences
    assert (found.target, found.golden) == ('"<function f>"', '"<function g>"')


def test_what_changes_numbers_is_told_first_and_places_last(compared):
    keys = ["output_dir", "name", "learning_rate", "topK", "seed", "rms_norm_eps", "kl_coef", "compute_dtype"]
    found = compared({key: 1 for key in keys}, {key: 2 for key in keys})
    assert [each.path for each in found.differences] == [
        "seed", "topK", "compute_dtype", "rms_norm_eps", "learning_rate", "kl_coef", "name", "output_dir",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        (("rl", "temperature"), "sampling"),
        (("rl", "top_p"), "sampling"),
        (("actor", "optimizer", "lr"), "the update"),
        (("actor", "optimizer", "path"), "the update"),
        (("rl", "beta"), "the objective"),
        (("adam", "eps"), "normalization"),
        (("params_dtype",), "dtype and rounding"),
        (("GLOBAL_SEED",), "random numbers"),
        (("dump_path",), "place or time"),
        (("steps",), ""),
        (("color",), ""),
    ],
)
def test_a_name_says_what_a_setting_changes(path, changes):
    meaning = rank_of(path)[1]
    assert (meaning.changes if meaning else "") == changes


def test_every_meaning_has_a_source():
    assert all(meaning.source and meaning.names for meaning in (*NUMERIC, PLACE))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1")[:7]]
)
def test_a_file_that_is_no_json_is_a_sentence(text, compared):
    found = compared(text, {"a": 1})
    assert "target.json: cannot be read" in found.problem
    assert not found.differences


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "a.json")
    assert "it is not a file but a link" in compare_configurations(tmp_path / "link.json", tmp_path / "a.json").problem


def test_what_a_sheet_would_run_stays_text(compared):
    found = compared({"=cmd": "\ud800"}, {"=cmd": 1})
    ((path, target, golden, *_),) = rows(found)
    assert (path, golden) == ("'=cmd", "1")
    target.encode("utf-8")
