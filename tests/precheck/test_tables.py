"""The files of a check, white and black lists, and two devices. Needs neither framework."""

import csv
import os

import pytest

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.precheck.check import Api, Checked, Direction, Output, Skipped
from msprobe.precheck.devices import Cause, compared
from msprobe.precheck.judge import Judgement, Reason, Status
from msprobe.precheck.lists import Lists
from msprobe.precheck.measures import Measures
from msprobe.precheck.run import _claimed as claimed
from msprobe.precheck.standards import Criterion
from msprobe.precheck.tables import DETAILS, RESULT, Files
from msprobe.replay.recorded import Cause as NotChecked
from msprobe.store.lock import claim


def checked(name, status=Status.PASS):
    """An API whose forward has one output, and whose backward was skipped."""
    judgement = Judgement(status, Criterion.BOUND, Reason.ELEMENT, 2.0, 1.0)
    output = Output(
        f"{name}.forward.output.0", "float32", (2, 3), "float64", judgement, Measures(6, max_absolute=0.5, place=4)
    )
    backward = Direction("backward", skipped=Skipped(NotChecked.RANDOM, "dropout"))
    return Checked(name, (Direction("forward", (output,)), backward))


def rows(file):
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def test_each_api_has_its_rows_as_soon_as_it_is_checked(tmp_path):
    files = Files.new(tmp_path / "out", "20260101000000")
    files.append(checked("Mint.add.0", Status.ERROR))
    assert files.result.read_bytes().startswith(b"\xef\xbb\xbfAPI Name,")
    [result] = rows(files.result)
    assert tuple(result) == RESULT
    assert [result[title] for title in RESULT[:3]] == ["Mint.add.0", "error", "SKIP"]
    assert "Mint.add.0.forward.output.0" in result["Message"]
    [detail] = rows(files.details)
    assert tuple(detail) == DETAILS
    assert (detail["API Name"], detail["Status"], detail["Criterion"]) == (
        "Mint.add.0.forward.output.0",
        "error",
        "error bound",
    )
    assert detail["Worst Element"] == "1,1"
    [skipped] = rows(files.skipped)
    assert (skipped["API Name"], skipped["Direction"], skipped["Detail"]) == ("Mint.add.0", "backward", "dropout")


def test_a_check_goes_on_where_it_was_killed(tmp_path):
    files = Files.new(tmp_path, "1")
    files.append(checked("Mint.add.0"))
    result, details = files.result.read_bytes(), files.details.read_bytes()
    files.append(checked("Mint.mul.0"))
    files.result.write_bytes(result + b"Mint.mu")  # killed in the middle of a line, and behind the details
    assert files.done() == {"Mint.add.0"}
    assert files.details.read_bytes() == details
    files.append(checked("Mint.mul.0"))
    assert [row["API Name"] for row in rows(files.result)] == ["Mint.add.0", "Mint.mul.0"]
    assert len(rows(files.details)) == 2


def test_a_check_goes_on_from_the_two_files_of_the_other_tool(tmp_path):
    """msprobe 8.1 has no file of what was skipped, and nine columns of details."""
    result = tmp_path / "accuracy_checking_result_1.csv"
    result.write_text("\ufeffAPI Name,Forward Test Success,Backward Test Success,Message\nMint.add.0,pass,,\n")
    titles = "API Name,Bench Dtype,Tested Dtype,Shape,Cosine,MaxAbsErr,MaxRelativeErr,Status,Message"
    details = tmp_path / "accuracy_checking_details_1.csv"
    details.write_text(f'\ufeff{titles}\nMint.add.0.forward.output.0,Float32,Float32,"(2, 2)",1.0,0.0,0.0,pass,\n')
    files = Files.next_to(result)
    assert files.done() == {"Mint.add.0"}
    files.append(checked("Mint.mul.0"))
    first, second = rows(files.details)
    assert (first["API Name"], first["Shape"], first["Criterion"]) == ("Mint.add.0.forward.output.0", "(2, 2)", "")
    assert (tuple(second), second["Criterion"]) == (DETAILS, "error bound")
    assert [row["API Name"] for row in rows(files.skipped)] == ["Mint.mul.0"]


def test_files_beside_a_result_of_any_name_are_other_files(tmp_path):
    files = Files.next_to(tmp_path / "mine.csv")
    assert (files.details.name, files.skipped.name) == ("mine_details.csv", "mine_skipped.csv")


def test_a_file_of_other_headings_is_refused(tmp_path):
    files = Files.new(tmp_path, "1")
    files.result.write_text("Name\nx\n")
    with pytest.raises(UsageError, match="API Name"):
        files.done()


def test_a_name_that_a_spreadsheet_would_run_is_text(tmp_path):
    files = Files.new(tmp_path, "1")
    files.append(checked("=cmd.f.0"))
    assert [row["API Name"] for row in rows(files.result)] == ["'=cmd.f.0"]


def test_lists_know_apis_functions_and_plain_names():
    apis = [Api(name) for name in ("Mint.add.0", "Mint.add.1", "Tensor.add.0", "Mint.mul.0")]

    def names(**lists):
        return [api.name for api in Lists(**lists).chosen(apis)]

    assert names(white=("add",)) == ["Mint.add.0", "Mint.add.1", "Tensor.add.0"]
    assert names(white=("Mint.add",), black=("Mint.add.1",)) == ["Mint.add.0"]
    assert names(black=("add",)) == ["Mint.mul.0"]
    with pytest.raises(UsageError, match="did you mean"):
        names(white=("Mint.ad",))


def test_each_process_takes_a_device_that_no_other_one_holds(tmp_path):
    held = claim(tmp_path / "3", create=True)
    assert claimed.__wrapped__(str(tmp_path), (3, 5)) == 5
    with pytest.raises(UsageError, match="3, 5"):
        claimed.__wrapped__(str(tmp_path), (3, 5))
    os.close(held)
    assert claimed.__wrapped__(str(tmp_path), (3, 5)) == 3


def row(name, dtype="float32", status="pass", **numbers):
    made = dict.fromkeys(DETAILS, "0") | {"API Name": name, "Tested Dtype": dtype, "Status": status}
    return made | {key.replace("_", " "): str(value) for key, value in numbers.items()}


def test_two_devices_are_compared_by_the_ratios_of_the_standards():
    one, other = "Mint.exp.0.forward.output.0", "Mint.matmul.0.forward.output.0"
    golden = [row(one, RMSE=1e-3, MaxRelativeErr=1e-3), row(other, Mean_ULP=100, ULP_Share=0.2)]
    target = [
        row(one, RMSE=2.1e-3, MaxRelativeErr=1e-3),
        row(other, Mean_ULP=99, ULP_Share=0.2),
        row("Mint.exp.1.forward.output.0"),
        row("Mint.relu.0.forward.output.0", status="error"),
    ]
    found = compared(target, golden)
    assert [each.status for each in found] == [Status.ERROR, Status.PASS, Status.SKIP, Status.ERROR]
    assert (found[0].exceeded, found[0].ratios["RMSE"]) == ("RMSE", pytest.approx(2.1))
    assert found[1].ratios["ULP"] == pytest.approx(0.99)
    assert (found[2].cause, found[3].cause) == (Cause.ABSENT, Cause.STANDARD)


def test_the_command_compares_the_details_of_two_checks(tmp_path, capsys):
    files = Files.new(tmp_path, "1")
    files.append(checked("Mint.exp.0"))
    argv = ["api_precision_compare", "-npu", str(files.details), "-gpu", str(files.details), "-o", str(tmp_path / "o")]
    assert main(argv) == 0
    assert capsys.readouterr().out.endswith("first wrong output: none\n")
    assert len(list((tmp_path / "o").glob("api_precision_compare_*.csv"))) == 2
