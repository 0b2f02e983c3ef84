"""Tables of several ranks side by side: what is found, read, joined and written, and what is refused."""

import csv
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from openpyxl import Workbook, load_workbook

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.compare.jobs.run import run_request
from msprobe.compare.merge.merge import merge_result, read_choice
from msprobe.compare.merge.tables import measures_of, open_table
from msprobe.compare.request import Request

TIME = "20260131235959"


@pytest.fixture
def tables(tmp_path):
    """`tables({0: path, 3: path})` lays tables under the names of ranks; gives their folder."""

    def lay(by_rank, name="compare_result_rank{rank}-rank{rank}_" + TIME):
        folder = tmp_path / "tables"
        folder.mkdir(exist_ok=True)
        for rank, path in by_rank.items():
            shutil.copy(path, folder / (name.format(rank=rank) + path.suffix))
        return folder

    return lay


@pytest.fixture
def config(tmp_path):
    """`config("api: [Mint.add]")` writes a YAML file."""

    def write(text):
        path = tmp_path / "config.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def theirs(samples):
    """`theirs("perturbed", "stat")`: a table that msprobe 8.1 wrote, or with `release="26.2.0"` one of 26."""

    def table(which, mode, release="8.1.1"):
        (found,) = (samples / release / "compare" / f"MS_MS_{which}_mix_{mode}").iterdir()
        return found

    return table


@pytest.fixture
def logged(monkeypatch):
    """What the log was given."""
    lines = []
    for level in ("info", "warning"):
        monkeypatch.setattr(
            "msprobe.base.log.logger." + level, lambda text, *values, level=level: lines.append((level, text % values))
        )
    return lines


def sheets(path):
    """Sheet -> its rows."""
    book = load_workbook(path)
    return {sheet.title: list(sheet.values) for sheet in book.worksheets}


def csv_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def write_table(path, rows, titles=None):
    """A table of statistics with these rows; each is a name and the further cells by heading."""
    titles = titles or ["NPU Name", *measures_of("statistics"), "NPU max", "Bench max"]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(titles)
        writer.writerows([[row.get(title, "0") for title in titles] for row in rows])
    return path


def test_a_sheet_per_measure_with_a_column_per_rank_in_numeric_order(tables, theirs, config, tmp_path):
    same, perturbed = theirs("same", "stat"), theirs("perturbed", "stat")
    folder = tables({10: same, 2: same, 0: perturbed})
    (path,) = merge_result(folder, tmp_path / "out", config("api: [Primitive.dense.Dense.0.forward, Mint.mean]"))
    assert path.name.startswith("multi_ranks_compare_merge_")
    merged = sheets(path)
    assert list(merged) == [
        *("Max diff", "Min diff", "Mean diff", "L2norm diff"),
        *("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"),
    ]
    # The cells stand so in the merged table that msprobe 8.1 makes of the same three tables.
    assert merged["Max diff"][:5] == [
        ("NPU Name", "rank0", "rank2", "rank10"),
        ("Primitive.dense.Dense.0.forward.input.0", 0, 0, 0),
        ("Primitive.dense.Dense.0.forward.input.1", -0.001000002026557895, 0, 0),
        ("Primitive.dense.Dense.0.forward.input.2", 0, 0, 0),
        ("Primitive.dense.Dense.0.forward.output.0", 0.004068195819854736, 0, 0),
    ]
    assert [row[0] for row in merged["Max diff"][5:]] == [
        *("Mint.mean.0.forward.input.0", "Mint.mean.0.forward.output.0"),
        *("Mint.mean.0.backward.input.0", "Mint.mean.0.backward.output.0"),
    ]
    assert merged["MaxRelativeErr"][3][1:] == ("NPU:0  Bench:0",) * 3


def test_tables_of_tensors_of_8_1_and_26_are_merged_together(tables, theirs, config, tmp_path):
    folder = tables({0: theirs("perturbed", "tensor"), 1: theirs("perturbed", "tensor", "26.2.0")})
    (path,) = merge_result(folder, tmp_path / "out", config("api: [Mint.mean.0.forward]\ncompare_index: [Cosine]"))
    (sheet,) = sheets(path).values()
    assert sheet[1] == ("Mint.mean.0.forward.input.0", 1, 1)
    values = "NPU:0.831683874130249  Bench:0.8318696618080139"
    assert sheet[2] == ("Mint.mean.0.forward.output.0", values, values)


def test_csv_numbers_are_numbers_and_percents_are_shown_as_such(tables, theirs, config, tmp_path):
    folder = tables({n: theirs("perturbed", "stat", "26.2.0") for n in (0, 1)})
    chosen = config("api: [Primitive.dense.Dense.0.forward]\ncompare_index: [Max diff, MaxRelativeErr]")
    (path,) = merge_result(folder, tmp_path / "out", chosen)
    merged = sheets(path)
    assert merged["Max diff"][2][1] == pytest.approx(-0.0010000020265578946, rel=1e-15)  # a sheet has 16 digits
    assert merged["MaxRelativeErr"][2][1] == pytest.approx(0.00568043548792148, rel=1e-15)
    assert load_workbook(path)["MaxRelativeErr"]["B3"].number_format.endswith("%")
    of_text = merge_result(folder, tmp_path / "texts", chosen, form="csv")
    assert csv_rows(of_text[1])[2][1] == "0.568043548792148%"


@pytest.mark.parametrize("form", ["xlsx", "csv"])
def test_our_own_tables_with_our_own_columns(samples, tables, config, tmp_path, form):
    dumps = samples / "8.1.1" / "dumps"
    request = Request(dumps / "msp_mix_tensor" / "step0", dumps / "ms_mix_tensor" / "step0", tmp_path / "one")
    (outcome,) = run_request(replace(request, format=form)).outcomes
    folder = tables({n: Path(outcome.table) for n in (0, 1)}, name="compare_result_rank{rank}_" + TIME)
    chosen = config("api: [Primitive.dense.Dense.0.forward]\ncompare_index: [Verdict, Scale Error, Bias, Max ULP]")
    merged = sheets(merge_result(folder, tmp_path / "out", chosen)[0])
    assert list(merged) == ["Verdict", "Scale Error", "Bias", "Max ULP"]
    assert merged["Verdict"][1] == ("Primitive.dense.Dense.0.forward.input.0", "pass", "pass")
    # The target's weight is greater by 0.001 everywhere.
    assert merged["Bias"][2][1] == pytest.approx(0.001, rel=1e-3)


def test_our_sheets_and_our_csv_files_merge_to_the_same_shares(samples, tables, config, tmp_path):
    """A sheet of ours has them as numbers, behind a sheet that sums the comparison up; csv as text."""
    dumps = samples / "8.1.1" / "dumps"
    request = Request(dumps / "msp_mix_stat" / "step0", dumps / "ms_mix_stat" / "step0", tmp_path / "one")
    made = {n: Path(run_request(replace(request, format=f)).outcomes[0].table) for n, f in enumerate(("xlsx", "csv"))}
    chosen = config("api: [Primitive.dense.Dense]\ncompare_index: [MaxRelativeErr]")
    folder = tables(made, name="compare_result_rank{rank}_" + TIME)
    heading, *rows = csv_rows(merge_result(folder, tmp_path / "out", chosen, form="csv")[0])
    assert heading == ["NPU Name", "rank0", "rank1"]
    shares = [row[1:] for row in rows if row[1].endswith("%")]
    assert len(shares) > 5
    for ours, theirs in shares:
        assert float(ours[:-1]) == pytest.approx(float(theirs[:-1]), rel=1e-15)
    assert all(row[1] == row[2] for row in rows if not row[1].endswith("%"))


def test_a_record_that_a_rank_has_not_is_blank_there_and_stands_where_others_have_it(config, tmp_path):
    names = ["A.b.0.forward.input.0", "A.b.0.forward.input.1", "A.b.0.forward.output.0", "A.b.1.forward.input.0"]
    for rank, kept in ((0, (0, 3)), (1, (0, 1, 3)), (2, (1, 2, 3))):
        rows = [{"NPU Name": names[n], "Max diff": f"{rank}.5"} for n in kept]
        write_table(tmp_path / f"compare_result_rank{rank}_{TIME}.csv", rows)
    (path,) = merge_result(tmp_path, tmp_path / "out", config("api: [A]\ncompare_index: [Max diff]"))
    assert sheets(path)["Max diff"][1:] == [
        (names[0], 0.5, 1.5, None),
        (names[1], None, 1.5, 2.5),
        (names[2], None, None, 2.5),
        (names[3], 0.5, 1.5, 2.5),
    ]


def test_an_entry_is_a_part_of_names_that_ends_at_a_dot(config, tmp_path):
    names = ["Mint.add.1.forward.input.0", "Mint.add.10.forward.input.0", "Mint.add.1", "Mint.addmm.1.forward.input.0"]
    for rank in (0, 1):
        write_table(tmp_path / f"compare_result_rank{rank}_{TIME}.csv", [{"NPU Name": name} for name in names])
    for api, found in (("Mint.add", names[:3]), ("Mint.add.1", [names[0], names[2]]), ("addmm.1.", names[3:])):
        path = merge_result(tmp_path, tmp_path / "out", config(f"api: ['{api}']\ncompare_index: [Max diff]"))[0]
        assert [row[0] for row in sheets(path)["Max diff"][1:]] == found


@pytest.mark.parametrize("word", ["N/A", "unsupported", "Nan"])
def test_a_measure_that_says_nothing_gives_way_to_the_two_values(config, tmp_path, word):
    row = {"NPU Name": "Distributed.all_reduce.0.forward.input.group", "NPU max": "[0, 1]", "Bench max": "[0, 1]"}
    for rank in (0, 1):
        write_table(tmp_path / f"compare_result_rank{rank}_{TIME}.csv", [row | {"Max diff": word}])
    (path,) = merge_result(tmp_path, tmp_path / "out", config("api: [Distributed]\ncompare_index: [Max diff]"))
    assert sheets(path)["Max diff"][1][1:] == ("NPU:[0, 1]  Bench:[0, 1]",) * 2


def test_a_name_that_a_table_has_twice_is_joined_by_which_of_them_it_is(config, tmp_path):
    for rank in (0, 1):
        rows = [{"NPU Name": "A.b.0.forward.output.0", "Max diff": str(10 * n + rank)} for n in range(2)]
        write_table(tmp_path / f"compare_result_rank{rank}_{TIME}.csv", rows)
    (path,) = merge_result(tmp_path, tmp_path / "out", config("api: [A.b]\ncompare_index: [Max diff]"))
    assert [row[1:] for row in sheets(path)["Max diff"][1:]] == [(0, 1), (10, 11)]


def test_as_csv_each_measure_is_a_file(tables, theirs, config, tmp_path):
    folder = tables({n: theirs("same", "stat") for n in (0, 1)})
    chosen = config("api: [Mint.mean.0.forward]\ncompare_index: [Max diff, NormRelativeErr]")
    first, second = merge_result(folder, tmp_path / "out", chosen, form="csv")
    assert first.name.endswith("_Max_diff.csv")
    assert csv_rows(first)[:2] == [["NPU Name", "rank0", "rank1"], ["Mint.mean.0.forward.input.0", "0", "0"]]
    assert csv_rows(second)[1][1] == "0.0%"


def test_what_is_left_aside_is_said(tables, theirs, config, tmp_path, logged):
    same = theirs("same", "stat")
    folder = tables({0: same, 1: same})
    shutil.copy(same, folder / f"compare_result_rank_{TIME}.xlsx")
    shutil.copy(same, folder / "my_table.xlsx")
    (folder / "step1").mkdir()
    merge_result(folder, tmp_path / "out", config("api: [Mint.mean, Mint.nothing]"))
    texts = [text for _, text in logged]
    assert any("rank_" in text and "single card" in text for text in texts)
    assert any("my_table.xlsx is skipped: not called" in text for text in texts)
    assert any("step1 is skipped: a folder" in text for text in texts)
    assert ("warning", f"{tmp_path / 'config.yaml'}: no record name contains Mint.nothing") in logged


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty; write a list"),
        ("# only a remark", "is empty"),
        ("compare_index: [Max diff]", "api is missing or empty"),
        ("api: []", "api is missing or empty"),
        ("api: Mint.add", "api is a str and must be a list"),
        ("api: [1]", "api contains a int"),
        ("api: ['.']", "api contains an empty string"),
        ("api: [Mint.mean]\ncompare_index: Max diff", "compare_index is a str and must be a list"),
        ("api: [Mint.mean]\ncompare_index: [Max dif]", "did you mean Max diff?"),
        ("api: [Mint.mean]\ncompare_index: [Cosine]", "not a measure of these tables"),
        ("api: [Mint.mean]\ncompare_index: [Bias]", "NormRelativeErr, Verdict, Requires_grad Consistent"),
        ("api: [Mint.mean]\ncompare_index: [Verdict]", "no table in"),
        ("api: [Mint.nothing]", "use names from the column NPU Name"),
        ("[1, 2]", "must have the keys api and compare_index"),
        ("api: [", "is not valid YAML"),
        ("[" * 5000, "is not valid YAML"),
        ("api: !!python/object/apply:os.getcwd []", "is not valid YAML"),
        (b"api: [\xff\xfe]", "is not valid YAML"),
        ("#" * (1 << 20) + "x", "larger than 1 MiB"),
    ],
)
def test_a_yaml_that_cannot_be_meant_is_refused_with_the_remedy(tables, theirs, config, tmp_path, text, part):
    folder = tables({n: theirs("same", "stat") for n in (0, 1)})
    with pytest.raises(UsageError) as caught:
        merge_result(folder, tmp_path / "out", config(text))
    assert part in str(caught.value)
    assert "byte string" not in str(caught.value)
    assert not list(tmp_path.glob("out/*"))


def test_aliases_that_would_unfold_without_end_are_harmless(config):
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)), "api: *a39"]
    with pytest.raises(UsageError, match="api contains a list"):
        read_choice(config("\n".join(lines)))


def test_an_unknown_key_is_named_and_ignored(config, logged):
    assert read_choice(config("api: [Mint.add]\ncompare_indx: [Max diff]")).compare_index == ()
    assert "did you mean compare_index?" in logged[0][1]


def test_fewer_than_two_tables_are_refused(tables, theirs, config, tmp_path):
    chosen = config("api: [Mint.mean]")
    with pytest.raises(UsageError, match="holds 1 table of a rank and two are needed"):
        merge_result(tables({0: theirs("same", "stat")}), tmp_path / "out", chosen)
    above = tmp_path / "steps"
    shutil.copytree(tmp_path / "tables", above / "step0")
    with pytest.raises(UsageError, match=r"holds no tables of a rank.*step0 has some.*-i .*step0"):
        merge_result(above, tmp_path / "out", chosen)
    with pytest.raises(UsageError, match="give the folder with the tables"):
        merge_result(tmp_path / "absent", tmp_path / "out", chosen)


def test_tables_of_two_kinds_or_of_digests_or_twice_of_one_rank_are_refused(tables, theirs, config, tmp_path):
    chosen = config("api: [Mint.mean]")
    folder = tables({0: theirs("same", "stat"), 1: theirs("same", "tensor")})
    with pytest.raises(UsageError, match=r"by statistics, but .*rank1.* by tensor; merge tables of one kind"):
        merge_result(folder, tmp_path / "out", chosen)
    tables({0: theirs("same", "md5"), 1: theirs("same", "md5")})
    with pytest.raises(UsageError, match="is a comparison of digests, which have no measures"):
        merge_result(folder, tmp_path / "out", chosen)
    tables({1: theirs("same", "stat")}, name="compare_result_rank{rank}_" + TIME)
    with pytest.raises(UsageError, match="are both of rank 1; remove one"):
        merge_result(folder, tmp_path / "out", chosen)


def test_a_formula_in_a_table_stays_text(config, tmp_path):
    row = {"NPU Name": "A.b.0.forward.=cmd()", "Max diff": "=1+1", "Min diff": "N/A", "NPU max": "x;=1"}
    for rank in (0, 1):
        write_table(tmp_path / f"compare_result_rank{rank}_{TIME}.csv", [row, {"NPU Name": "=A.b.0"}])
    chosen = config("api: [A.b]\ncompare_index: [Max diff, Min diff]")
    merged = sheets(merge_result(tmp_path, tmp_path / "out", chosen)[0])
    assert merged["Max diff"][1:] == [("A.b.0.forward.=cmd()", "'=1+1", "'=1+1"), ("'=A.b.0", 0, 0)]
    assert merged["Min diff"][1][1] == "NPU:x;'=1  Bench:0"


@pytest.mark.parametrize(
    "content",
    [b"", b"not a zip", b"PK\x03\x04 cut off"],
)
def test_a_broken_xlsx_is_refused(tmp_path, content):
    path = tmp_path / "t.xlsx"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"t.xlsx: is damaged or not a table"):
        open_table(path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b'NPU Name,"' + b"x" * 200_000, b"a,b\n1,2\n"])
def test_a_broken_csv_is_refused(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"t\.csv: (is damaged or not a table|does not have the column headings)"):
        open_table(path)


def rewritten(path, member, text):
    """The same workbook with one part replaced; a part may be given as pieces, so that it need not be in memory."""
    made = path.with_name("rewritten.xlsx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name in old.namelist():
            with new.open(name, "w") as part:
                for piece in text if name == member else [old.read(name)]:
                    part.write(piece)
    return made


def test_a_zip_that_unpacks_to_far_more_than_it_is_is_refused_unread(theirs, tmp_path):
    path = shutil.copy(theirs("same", "stat"), tmp_path / "t.xlsx")
    bomb = rewritten(path, "xl/worksheets/sheet1.xml", [b" " * (1 << 20)] * 65)
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(
        UsageError, match=r"sheet1\.xml unpacks from \d+ to 68157440 bytes, which is implausible for a table"
    ):
        open_table(bomb)


def test_entities_that_unfold_without_end_are_refused(theirs, tmp_path):
    path = shutil.copy(theirs("same", "stat"), tmp_path / "t.xlsx")
    with zipfile.ZipFile(path) as book:
        text = book.read("xl/worksheets/sheet1.xml").decode()
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    text = f'<!DOCTYPE worksheet [<!ENTITY e0 "lol">{entities}]>{text.replace("Max diff", "&e11;")}'
    with pytest.raises(UsageError, match="is damaged or not a table"):
        open_table(rewritten(path, "xl/worksheets/sheet1.xml", [text.encode()]))


def test_a_row_that_claims_to_stand_far_away_is_not_waited_for(theirs, tmp_path):
    path = shutil.copy(theirs("same", "stat"), tmp_path / "t.xlsx")
    with zipfile.ZipFile(path) as book:
        text = book.read("xl/worksheets/sheet1.xml").decode()
    head, _, tail = text.rpartition("</sheetData>")
    far = '<row r="999999999999"><c r="A999999999999"><v>1</v></c></row></sheetData>'
    table = open_table(rewritten(path, "xl/worksheets/sheet1.xml", [(head + far + tail).encode()]))
    assert len(list(table.picked(["NPU Name"]))) == len(list(load_workbook(path).active.values)) - 1


def test_a_large_table_goes_on_in_a_further_sheet_and_other_sheets_are_none_of_it(tmp_path):
    titles = ["NPU Name", *measures_of("tensor"), "NPU max", "Bench max"]
    book = Workbook()
    book.remove(book.active)
    for name, head, cell in (("compare", titles, "a"), ("notes", ["seen"], "b"), ("compare 2", titles, "c")):
        sheet = book.create_sheet(name)
        sheet.append(head)
        sheet.append([cell])
    book.save(tmp_path / "t.xlsx")
    assert list(open_table(tmp_path / "t.xlsx").picked(["NPU Name"])) == [("a",), ("c",)]


def test_the_command_prints_the_file_and_ends_with_0(tables, theirs, config, tmp_path, capsys):
    folder = tables({n: theirs("same", "stat") for n in (0, 1)})
    words = ["-i", folder, "-o", tmp_path / "out", "-config", config("api: [Mint.mean]")]
    assert main(["-f", "mindspore", "merge_result", *map(str, words)]) == 0
    (path,) = (tmp_path / "out").iterdir()
    records = load_workbook(path).worksheets[0].max_row - 1
    assert capsys.readouterr().out == f"{path}\nmerged: {records} records of 2 ranks\n"
    assert main(["merge_result", "-i", str(tmp_path / "absent"), *map(str, words[2:])]) == 2


def test_the_output_says_which_ranks_lack_which_records(config, tmp_path, capsys):
    """Stages of a pipeline have other calls, which is no gap: the cells are empty, and the exit code is 0."""
    folder = tmp_path / "tables"
    folder.mkdir()
    stages = {
        0: ["Mint.add.0.forward.output.0"],
        1: ["Mint.add.0.forward.output.0"],
        2: ["Mint.add.1.forward.output.0"],
    }
    for rank, names in stages.items():
        write_table(folder / f"compare_result_rank{rank}_{TIME}.csv", [{"NPU Name": name} for name in names])
    words = ["merge_result", "-i", str(folder), "-o", str(tmp_path / "out"), "-config", str(config("api: [Mint.add]"))]
    assert main(words) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "missing on ranks 0, 1: 1 of 2 records, as with pipeline stages: Mint.add.1.forward.output.0",
        "missing on rank 2: 1 of 2 records, as with pipeline stages: Mint.add.0.forward.output.0",
        "merged: 2 records of 3 ranks",
    ]


def test_an_entry_that_no_rank_has_is_counted(tables, theirs, config, tmp_path, capsys):
    folder = tables({0: theirs("same", "stat"), 1: theirs("same", "stat")})
    text = "api: [Primitive.dense.Dense.0.forward, Mint.nowhere]"
    words = ["merge_result", "-i", str(folder), "-o", str(tmp_path / "out"), "-config", str(config(text))]
    assert main(words) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "merged: 4 records of 2 ranks; 1 could not be judged: entries of api that are in no table (1)"
