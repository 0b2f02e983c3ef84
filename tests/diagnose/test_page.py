"""One page of text, and the same as data."""

import json

import pytest
from three_cells import NORM

from msprobe.cli import main
from msprobe.diagnose.page import page
from msprobe.store.reader import read_head


def headings(lines):
    return [line for line in lines if line and not line.startswith(" ")]


def test_the_page_has_five_parts(found):
    lines = page(found(lambda run, is_target: run.step(wrong={NORM: 0.5} if is_target else None)))
    assert headings(lines) == ["Answer", "Evidence", "Ruled out", "Not recorded", "Next collection"]
    assert "  parameters: 1 pair, equal in all four statistics" in lines
    assert "  run inputs: 2 pairs, equal in all four statistics" in lines
    assert "  calls inside cells and between them: not recorded at level L0" in lines


def test_much_is_still_one_page(found):
    def fill(run, is_target):
        for step in range(12):
            for rank in range(6):
                run.step(step, rank, wrong={NORM: 0.5} if is_target and step > 5 else None)
        if is_target:
            run.step(40, 0)

    lines = page(found(fill))
    assert len(lines) <= 60
    assert "  steps 0, 1, 2, 3, 4, 5: 324 pairs, equal in all four statistics" in lines  # 6 steps, 6 ranks, 9 pairs
    assert "    and 2 more, in the JSON" in lines  # of six ranks
    assert "    steps 7, 8, 9, 10, 11 after it differ too" in lines


def test_the_json_has_what_the_page_says_as_fields(sides, capsys):
    target, golden = sides(lambda run, is_target: run.step(2, 1, wrong={NORM: 0.5} if is_target else None))
    assert main(["diagnose", str(target), str(golden), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    (first,) = report["findings"]
    place, details = first["place"], report["details"]
    assert (report["state"], place["step"], place["rank"], first["code"]) == ("differs", 2, 1, "MSP101")
    assert (place["name"], first["kind"], first["fields"]["type"]) == (
        f"Cell.{NORM}.forward.0",
        "computes differently",
        "Computed",
    )
    assert details["next_collection"]["purpose"] == "inside_cell"
    assert details["next_collection"]["target"]["step"] == [2]
    assert json.loads(report["suggestions"][0]["configuration"]) == details["next_collection"]["target"]
    parameters = next(each for each in details["ruled_out"] if each["what"] == "parameters")
    assert (parameters["sureness"], parameters["equal"], parameters["differing"]) == ("statistics", 1, 0)
    assert details["looked"][0]["jobs"][0]["first_wrong"] == f"Cell.{NORM}.forward.0"


def test_exit_zero_and_tables_are_as_of_compare(sides, tmp_path, capsys):
    target, golden = sides(lambda run, is_target: run.step(wrong={NORM: 0.5} if is_target else None))
    out = tmp_path / "kept"
    assert main(["diagnose", str(target), str(golden), "--exit-zero", "-o", str(out)]) == 0
    assert [path.suffix for path in out.rglob("compare_result*")] == [".xlsx"]
    assert main(["diagnose", str(target), str(golden)]) == 1
    assert capsys.readouterr().out.count("first wrong call: ") == 2


def test_steps_and_ranks_can_be_chosen(sides, capsys):
    def fill(run, is_target):
        for step in (0, 1):
            run.step(step, wrong={NORM: 0.5} if is_target and not step else None)

    target, golden = sides(fill)
    assert main(["diagnose", str(target), str(golden), "--step", "1"]) == 0
    assert main(["diagnose", str(target), str(golden), "--step", "3"]) == 2
    assert "step 3 on neither side; available: steps 0, 1" in capsys.readouterr().err


def test_the_header_of_a_dump_is_read_without_its_data(sides, tmp_path):
    target, _ = sides(lambda run, _: run.step(3, 1, level="mix"))
    head = read_head(target / "step3" / "rank1" / "dump.json")
    assert (head.task, head.level, head.framework, head.run["step"]) == ("statistics", "mix", "mindspore", 3)
    assert head.settings["statistics"]["data_mode"] == ["all"]
    odd = tmp_path / "odd.json"
    for text in ("", "{", "[]", '{"task": 3, "run": [], "level": "L0"', '{"data": {}}', '{"task": tru'):
        odd.write_text(text)
        assert read_head(odd).run == {}
    assert read_head(tmp_path / "none.json").task == ""
    # As msprobe writes it, with the data in lines behind.
    odd.write_text('{\n "task": "tensor",\n "level": "L1",\n "dump_data_dir": null,\n "data": {"x": broken')
    assert (read_head(odd).task, read_head(odd).level) == ("tensor", "L1")


LONG_SCOPE = ".".join(["a_block_with_a_long_name"] * 60)
LONG_FILE = "/train/" + "/".join(["a_folder_with_a_long_name"] * 60) + "/net.py"


@pytest.mark.parametrize("scope", ["net", f"net.{LONG_SCOPE}"], ids=["short scope", "long scope"])
@pytest.mark.parametrize(
    "file", ["/train/net.py", LONG_FILE, "/a folder/net (copy).py"], ids=["short", "long", "spaces"]
)
def test_the_source_line_is_never_cut(scope, file, sides, tmp_path, capsys):
    def fill(run, is_target):
        run.stack = [f"File {file}, line 7, in construct"]
        run.step(wrong={NORM: 0.5} if is_target else None)
        for each in run.path.rglob("*.json"):
            each.write_text(each.read_text().replace("net.norm.", f"{scope}.norm."))

    target, golden = sides(fill)
    assert main(["diagnose", str(target), str(golden)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("  first wrong call: Cell.net.")
    assert printed[1].endswith(f" ({file}:7)")
    # The configuration can be copied from the page.
    first, last = printed.index("    {"), printed.index("    }")
    configuration = json.loads("\n".join(printed[first : last + 1]))
    assert configuration["tensor"]["list"] == [f"Cell.{scope}.norm.LayerNorm."]
    assert main(["diagnose", str(target), str(golden), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["answer"].endswith(f" ({file}:7)")
    place = report["findings"][0]["place"]
    assert (place["file"], place["line"]) == (file, 7)
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "tables")]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith(f" ({file}:7)")
