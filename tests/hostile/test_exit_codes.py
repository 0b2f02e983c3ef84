"""One rule for the exit codes of all verbs: 0 all was judged and is fine, 1 something is wrong or unjudged, 2 nothing
was judged. Every verb that takes a dump, with every bad input, on one rank of two and on both.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bad_runs import SPOILED, write_run

from msprobe.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.part(2)]

RANK = "step0/rank0"

VERBS = {
    "overflow_check": lambda run, good, out: ["overflow_check", run, "-o", out],
    "check": lambda run, good, out: ["check", run],
    "replay": lambda run, good, out: ["check", run, "--only", "replay"],
    "acc_check": lambda run, good, out: ["acc_check", "-api_info", run / RANK, "-o", out, "--workers", "1"],
    "compare": lambda run, good, out: ["compare", "-tp", run, "-gp", good, "-o", out, "--format", "csv"],
    "mapping": lambda run, good, out: [
        "mapping",
        "suggest",
        run / "step0/rank0",
        good / "step0/rank0",
        "-o",
        out / "m",
    ],
    "graph": lambda run, good, out: ["graph_visualize", "-tp", run, "-o", out],
    "report": lambda run, good, out: ["report", run, "-o", out / "page.html"],
    "report_found": lambda run, good, out: ["report", run, "--as", "overflow_check", "-o", out / "page.html"],
    "digest": lambda run, good, out: ["digest", run],
    "doctor": lambda run, good, out: ["doctor", run],
    "convert": lambda run, good, out: ["convert", run, "-o", out / "converted", "--to", "packed"],
    "diagnose": lambda run, good, out: ["diagnose", run, good],
}
ALL_RANKS = ("overflow_check", "check", "compare", "graph", "report", "digest", "doctor")
ONE_DUMP = ("acc_check", "mapping")
"""They take the dump of one rank."""

NEEDS_TORCH = ("replay", "acc_check")

# Two digits for each verb, in their order: the exit code where one rank is spoiled, and where both are.
EXPECTED = """
                                oc ch re ac co ma gr re rf di do cv dg
nothing                         00 00 00 00 00 00 00 00 00 00 00 00 00
statistics null                 12 12 12 00 11 00 00 11 12 00 00 00 11
statistics null, with tensors   11 11 11 00 11 00 00 11 11 00 00 00 11
statistics nan as text          12 12 12 00 11 00 00 11 12 00 11 00 11
statistics absent               12 12 12 00 11 00 00 11 12 00 00 00 11
nan in a norm                   11 00 00 00 00 00 00 11 11 00 00 00 00
nan in a tensor                 11 11 11 11 11 00 00 00 11 00 00 00 11
digests                         12 12 12 00 11 00 00 11 12 00 00 00 11
no dump                         12 12 12 22 12 22 12 12 12 12 12 02 12
empty dump                      12 12 12 22 12 22 12 11 12 00 00 00 12
no tensor files                 11 11 12 22 11 00 00 11 11 00 11 11 11
tensors cut                     11 11 12 22 11 00 00 11 11 00 11 11 11
tensors garbage                 11 11 12 22 11 00 00 11 11 00 11 11 11
unknown operations              00 11 12 22 11 00 00 00 00 00 00 00 11
level L0                        00 00 02 22 00 00 00 00 00 00 00 00 00
dump.json cut                   12 12 12 22 12 22 12 12 12 12 11 12 12
dump.json garbage               12 12 12 22 12 22 12 12 12 12 11 12 12
dump.json empty                 12 12 12 22 12 22 12 12 12 12 11 12 12
stack.json garbage              00 00 00 00 00 00 00 00 00 00 11 11 00
construct.json garbage          00 00 00 00 00 00 12 00 00 00 11 11 00
torn journal                    12 12 12 22 12 22 12 12 12 12 00 22 12
a file                          12 12 12 22 12 22 12 12 12 12 12 02 12
a link to itself                12 12 12 22 12 22 12 12 12 12 12 12 12
"""


def needs(verb, name=None):
    """Return the markers of a verb; `check` finds this NaN by executing the call again."""
    is_replayed = verb in NEEDS_TORCH or (verb, name) == ("check", "nan in a tensor")
    return pytest.mark.torch if is_replayed else ()


def cells():
    for line in EXPECTED.strip().splitlines()[1:]:
        name, codes = line[:32].strip(), line[32:].split()
        for verb, (one, both) in zip(VERBS, codes, strict=True):
            for ranks, code in (((1,), one), ((0, 1), both)):
                if not (len(ranks) == 1 and (verb in ONE_DUMP or name == "nothing")):
                    yield pytest.param(
                        verb, name, ranks, int(code), marks=needs(verb, name), id=f"{verb}-{name}-{len(ranks)}"
                    )


@pytest.mark.sample(40)
@pytest.mark.parametrize(("verb", "name", "ranks", "code"), list(cells()))
def test_an_exit_code_says_whether_all_was_judged(verb, name, ranks, code, tmp_path, capfd):
    if verb in NEEDS_TORCH:
        pytest.importorskip("torch", reason="the reference in float64 is computed by it")
    run, good, out = write_run(tmp_path / "run"), write_run(tmp_path / "good"), tmp_path / "out"
    out.mkdir()
    for rank in ranks:
        SPOILED[name](run / "step0" / f"rank{rank}")
    assert main([str(word) for word in VERBS[verb](run, good, out)]) == code
    captured = capfd.readouterr()
    if code == 0:
        return
    last = (captured.out.splitlines() or captured.err.splitlines())[-1]
    if verb == "diagnose":  # its page ends with what to do next
        return
    assert any(word in last for word in SAYS), last
    assert code == 2 or any(character.isdigit() for character in last)


SAYS = (
    *("could not be judged", "nothing could be judged", "first wrong", "first non-finite: ", "first violation: "),
    *("no difference in what could be judged", " failed", " wrong", "LOST", "No pair was found"),
    "msprobe ",  # a line on standard error: nothing was judged at all
)


def test_every_input_and_every_verb_is_in_the_table():
    lines = EXPECTED.strip().splitlines()
    assert [line[:32].strip() for line in lines[1:]] == list(SPOILED)
    assert all(len(line[32:].split()) == len(VERBS) for line in lines[1:])


@pytest.mark.parametrize("form", ["packed", "columnar"])
@pytest.mark.parametrize("verb", [pytest.param(verb, marks=needs(verb)) for verb in VERBS])
def test_a_correct_run_of_every_format_is_clean(verb, form, tmp_path):
    if form == "columnar":
        pytest.importorskip("pyarrow", reason="the format is written through it")
    if verb in NEEDS_TORCH:
        pytest.importorskip("torch", reason="the reference in float64 is computed by it")
    run, good, out = write_run(tmp_path / "run", form), write_run(tmp_path / "good", form), tmp_path / "out"
    out.mkdir()
    words = [str(word) for word in VERBS[verb](run, good, out)]
    assert main(["json" if word == "packed" else word for word in words]) == 0


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("path", ["missing", "empty", "file", "link"])
def test_a_path_without_a_dump_is_exit_code_2(verb, path, tmp_path):
    run, good, out = tmp_path / "run", write_run(tmp_path / "good"), tmp_path / "out"
    out.mkdir()
    if path == "empty":
        (run / "step0" / "rank0").mkdir(parents=True)
    elif path == "file":
        run.write_text("text")
    elif path == "link":
        run.symlink_to("run")
    assert main([str(word) for word in VERBS[verb](run, good, out)]) == 2


UNPRIVILEGED = [] if os.getuid() else ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
"""What runs a command so that the permissions of files hold for it, also where the tests run as root."""


@pytest.mark.skipif(bool(UNPRIVILEGED) and not shutil.which("setpriv"), reason="root may read everything; no setpriv")
@pytest.mark.parametrize("verb", [*ALL_RANKS, "convert"])
@pytest.mark.parametrize("part", ["rank1", "rank1/dump.json"])
def test_what_may_not_be_read_is_not_passed_over(verb, part, tmp_path):
    run, good, out = write_run(tmp_path / "run"), write_run(tmp_path / "good"), tmp_path / "out"
    out.mkdir()
    (run / "step0" / part).chmod(0)
    words = [str(word) for word in VERBS[verb](run, good, out)]
    done = subprocess.run(
        [*UNPRIVILEGED, sys.executable, "-m", "msprobe", *words], capture_output=True, text=True, timeout=120, cwd=out
    )
    (run / "step0" / part).chmod(0o700)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_exit_zero_is_for_what_is_wrong_and_not_for_what_nobody_judged(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    SPOILED["nan in a norm"](run / "step0" / "rank1")
    command = ["overflow_check", str(run), "-o", str(tmp_path / "out")]
    assert main(command) == 1
    assert main([*command, "--exit-zero"]) == 0
    for rank in (0, 1):
        SPOILED["empty dump"](run / "step0" / f"rank{rank}")
    assert main([*command, "--exit-zero"]) == 2


def test_a_step_that_one_rank_lacks_is_not_passed_over(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    shutil.copytree(run / "step0", run / "step1")
    shutil.rmtree(run / "step1" / "rank1")
    (run / "step1" / "rank1").mkdir()
    assert main(["overflow_check", str(run), "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == (
        "first non-finite: none, no call made NaN or infinities; 1 could not be judged: "
        "folders of a step or rank without a dump (1)"
    )


@pytest.mark.parametrize("verb", ["doctor", "digest", "overflow_check", "check"])
def test_a_rank_that_was_asked_for_alone_is_judged_alone(verb, tmp_path):
    run = write_run(tmp_path / "run")
    SPOILED["no dump"](run / "step0" / "rank1")
    assert main([str(word) for word in VERBS[verb](run / "step0" / "rank0", None, tmp_path / "out")]) == 0


def test_statistics_alone_are_trusted_on_request(tmp_path):
    run = write_run(tmp_path / "run")
    SPOILED["nan in a tensor"](run / "step0" / "rank0")
    command = ["overflow_check", str(run), "-o", str(tmp_path / "out")]
    assert main(command) == 1
    assert main([*command, "--statistics-only"]) == 0


def test_the_number_of_what_was_not_judged_is_in_the_answer(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    SPOILED["statistics null"](run / "step0" / "rank1")
    assert main(["overflow_check", str(run), "-o", str(tmp_path / "out"), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    reasons = [{"reason": "no_statistics", "means": "records without statistics", "number": 12}]
    assert (found["state"], found["not_judged"]) == ("unjudged", reasons)
    assert main(["check", str(run), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["not_judged"]) == ("unjudged", reasons)


# Verbs that take something else than a dump.


def details(folder, rows):
    from msprobe.precheck.tables import DETAILS

    folder.mkdir()
    file = folder / "accuracy_checking_details_1.csv"
    line = dict.fromkeys(DETAILS, "") | {
        "Tested Dtype": "float32",
        "Status": "pass",
        "Max ULP": "1",
        "Mean ULP": "0",
        "ULP Share": "0",
    }
    errors = ("MaxAbsErr", "MaxRelativeErr", "RMSE", "MeanRelativeErr", "Small Value Error Share", "Error Balance")
    line |= dict.fromkeys(errors, "0.0")
    texts = [",".join(str((line | {"API Name": name})[title]) for title in DETAILS) for name in rows]
    file.write_text("\n".join([",".join(DETAILS), *texts]) + "\n")
    return file


@pytest.mark.parametrize(
    ("ours", "theirs", "code"),
    [("ab", "ab", 0), ("ab", "a", 1), ("a", "ab", 1), ("a", "b", 2), ("", "ab", 2)],
    ids=["both", "only ours", "only theirs", "nothing in common", "empty"],
)
def test_outputs_of_one_device_only_are_not_passed_over(ours, theirs, code, tmp_path, capsys):
    files = [
        details(tmp_path / side, [f"Torch.softmax.{ord(letter)}.forward.output.0" for letter in letters])
        for side, letters in (("npu", ours), ("gpu", theirs))
    ]
    command = ["api_precision_compare", "-npu", str(files[0]), "-gpu", str(files[1]), "-o", str(tmp_path)]
    assert main(command) == code


def test_a_torn_row_of_a_device_is_not_passed_over(tmp_path, capsys):
    files = [
        details(tmp_path / side, ["Torch.add.0.forward.output.0", "Torch.add.1.forward.output.0"]) for side in "ab"
    ]
    files[0].write_text(files[0].read_text()[:-20])
    assert main(["api_precision_compare", "-npu", str(files[0]), "-gpu", str(files[1]), "-o", str(tmp_path)]) == 1
    assert "could not be judged" in capsys.readouterr().out.splitlines()[-1]


FILES = {
    "config_check": lambda path, out: ["config_check", "-c", path, path, "-o", out / "r"],
    "rollout_check": lambda path, out: ["rollout_check", path, "-o", out / "r"],
    "merge_result": lambda path, out: ["merge_result", "-i", path, "-o", out, "-config", path],
    "api_precision_compare": lambda path, out: ["api_precision_compare", "-npu", path, "-gpu", path, "-o", out],
    "gather": lambda path, out: ["gather", path, "-o", out / "g"],
    "monitor compare": lambda path, out: ["monitor", "compare", path, path],
    "code_mapping": lambda path, out: ["code_mapping", "--ir", path, "--dump_data", path, "--output", out],
    "data2db": lambda path, out: ["data2db", "--db", out, "--data", path],
}


@pytest.mark.parametrize(
    "content", ["missing", "empty folder", "empty", "garbage", "folder of garbage", "link", "empty zip"]
)
@pytest.mark.parametrize("verb", FILES)
def test_other_verbs_refuse_what_is_nothing_of_theirs(verb, content, tmp_path, capsys):
    path, out = tmp_path / ("a.zip" if "zip" in content else "a"), tmp_path / "out"
    out.mkdir()
    if "folder" in content:
        path.mkdir()
        if "garbage" in content:
            (path / "a.csv").write_bytes(bytes(range(256)))
    elif content == "link":
        path.symlink_to(path.name)
    elif content == "empty zip":
        path.write_bytes(b"PK\x05\x06" + bytes(18))
    elif content != "missing":
        path.write_bytes(bytes(range(256)) if content == "garbage" else b"")
    try:
        code = main([str(word) for word in FILES[verb](Path(path), out)])
    except SystemExit as end:
        code = end.code
    assert code == 2, capsys.readouterr().out
