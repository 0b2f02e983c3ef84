"""The scripts of `msprobe completion`, run by the shells themselves."""

import shutil
import subprocess

import pytest

from msprobe.cli import VERBS, main


@pytest.fixture
def script(capsys, tmp_path, monkeypatch):
    """The path of the script of a shell."""
    monkeypatch.setenv("MSPROBE_LANG", "en")

    def write(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / f"msprobe.{shell}"
        path.write_text(capsys.readouterr().out)
        return path

    return write


def run(shell, code):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


CASES = [
    (["comp"], {"compare", "completion"}),
    (["compare", "--no"], {"--noise", "--no-resume"}),
    (["compare", "--format", ""], {"xlsx", "csv", "json"}),
    (["compare", "a", "b", "--format", "c"], {"csv"}),
    (["acc_check", "--res"], {"--resume-from"}),
    (["acc-check", "--res"], {"--resume-from"}),
    (["-f", "mindspore", "compare", "--no"], {"--noise", "--no-resume"}),
    (["monitor", ""], {"compare", "anomalies"}),
    (["monitor", "compare", "--h"], {"--html", "--help"}),
    (["report", "--as", "over"], {"overflow_check"}),
]


SHOW = "_msprobe; printf '%s\\n' \"${COMPREPLY[@]}\""


@pytest.mark.parametrize(("words", "expected"), CASES)
def test_bash_completes(script, words, expected):
    array = " ".join(f"'{word}'" for word in ("msprobe", *words))
    code = f"source {script('bash')}; COMP_WORDS=({array}); COMP_CWORD={len(words)}; {SHOW}"
    assert set(run("bash", code)) == expected


def test_bash_completes_every_verb(script):
    code = f"source {script('bash')}; COMP_WORDS=(msprobe ''); COMP_CWORD=1; {SHOW}"
    found = run("bash", code)
    assert {verb.split()[0] for verb, each in VERBS.items() if not each.is_older} <= set(found)
    assert not {"graph", "run_ut", "acc_check"} & set(found)


@pytest.mark.parametrize(("words", "expected"), [case for case in CASES if "--help" not in case[1]])
def test_fish_completes(script, words, expected):
    line = " ".join(("msprobe", *words))
    found = run("fish", f"source {script('fish')}; complete -C '{line}'")
    assert expected == {each.split("\t")[0] for each in found}


ZSH = """
compdef() {{ : }}
_describe() {{ print -rl -- ${{(P)2}} }}
_arguments() {{ print -rl -- "$@" }}
source {script}
words=({words}); CURRENT={current}; _msprobe
"""
"""The functions of zsh's completion system print what they are given."""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["comp"], "compare:compare two dumps and find the first wrong call"),
        (["monitor", ""], "compare:find where two monitored trainings diverge"),
        (
            ["compare", "--no"],
            "(--noise)--noise[noise threshold\\: auto (default), exact (no tolerance), or a ",
        ),
        (
            ["monitor", "compare", "--h"],
            "(--html)--html[with -o\\: also write monitor_report.html, a page with all curves]",
        ),
        (
            ["compare", "--format", ""],
            "(--format)--format[format of the tables; default\\: xlsx]:{xlsx,csv,json}:(xlsx csv json)",
        ),
        (
            ["run_ut", "--res"],
            "(--resume-from)--resume-from[resume an interrupted check from its result file]:FILE:_files",
        ),
    ],
)
def test_zsh_is_told(script, words, expected):
    array = " ".join(f"'{word}'" for word in ("msprobe", *words))
    found = run("zsh", ZSH.format(script=script("zsh"), words=array, current=len(words) + 1))
    assert any(line.startswith(expected) for line in found), found
