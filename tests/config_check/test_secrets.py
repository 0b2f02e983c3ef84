"""Packs hold no secret, whatever form it has, and say where one was; two packs still show whether secrets are equal."""

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from msprobe.base import redaction
from msprobe.cli import main

sys.path.append(str(Path(__file__).parents[1] / "base"))
import secret_corpus

pytestmark = [pytest.mark.slow, pytest.mark.part(2)]

MOST = 0.01
"""Share of the planted secrets that may pass."""


def entries(path):
    with zipfile.ZipFile(path) as held:
        return {name: held.read(name).decode() for name in held.namelist()}


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """All planted secrets in one run: the scripts and the environment are given to the command."""
    monkeypatch.setenv(redaction.SALT, "off")
    cases = secret_corpus.read("planted.txt")
    scripts = []
    for number, case in enumerate(cases):
        if path := secret_corpus.write(case, tmp_path, number):
            scripts.append(str(path))
        elif held := secret_corpus.variable(case):
            monkeypatch.setenv(held[0] if case.kind == "env" else f"LAUNCHED_WITH_{number}", held[1])
    return [case for case in cases if case.kind != "python"], scripts


def test_a_pack_of_everything_that_is_planted_holds_none_of_it(planted, tmp_path, capsys):
    cases, scripts = planted
    assert main(["config_check", "-d", *scripts, "-o", str(tmp_path / "pack.zip")]) == 0
    written = str(entries(tmp_path / "pack.zip")) + capsys.readouterr().out
    assert [str(case) for case in cases if len(case.wanted) > 4 and case.wanted in written] == []
    assert sum(map(len, json.loads(entries(tmp_path / "pack.zip")["pack.json"])["redacted"].values())) > 100


def test_a_dry_run_prints_what_a_pack_would_hold_and_writes_nothing(planted, tmp_path, capsys):
    cases, scripts = planted
    before = sorted(os.listdir(tmp_path))
    assert main(["config_check", "-d", *scripts, "--dry-run", "-o", str(tmp_path / "pack.zip")]) == 0
    printed = capsys.readouterr().out
    assert sorted(os.listdir(tmp_path)) == before
    assert printed.splitlines()[-1] == "nothing was written (--dry-run)"
    assert [str(case) for case in cases if len(case.wanted) > 4 and case.wanted in printed] == []
    assert main(["config_check", "-d", *scripts, "-o", str(tmp_path / "pack.zip")]) == 0
    for name, content in entries(tmp_path / "pack.zip").items():
        lines = "\n".join(f"  {line}" for line in content.splitlines())
        assert f"{name}:\n{lines}\n" in printed or not lines.isascii()


def test_a_dry_run_does_not_mind_a_pack_that_is_there_and_is_for_packing_only(tmp_path, capsys):
    (tmp_path / "pack.zip").write_text("mine")
    assert main(["config_check", "-d", "--dry-run", "-o", str(tmp_path / "pack.zip")]) == 0
    assert (tmp_path / "pack.zip").read_text() == "mine"
    capsys.readouterr()
    assert main(["config_check", "-c", "a.zip", "b.zip", "--dry-run"]) == 2
    assert "--dry-run requires" in capsys.readouterr().err


def test_the_pack_and_the_console_say_where_something_was_redacted(tmp_path, capsys, monkeypatch):
    for name in list(os.environ):
        if redaction.strength_of(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MY_TOKEN", "swordfish")
    (tmp_path / "conf.yaml").write_text("lr: 0.1\ndb:\n  password: haddock\nlist: [a, 'https://u:pollack@h/x']\n")
    (tmp_path / "run.sh").write_text("X=haddock\ntorchrun t.py --lr 1 --note $X\n")
    scripts = [str(tmp_path / name) for name in ("conf.yaml", "run.sh")]
    assert main(["config_check", "-d", *scripts, "-o", str(tmp_path / "pack.zip")]) == 0
    found = entries(tmp_path / "pack.zip")
    static = "hyperparameters/hyperparameters_static.json"
    redacted = json.loads(found["pack.json"])["redacted"]
    assert "MY_TOKEN" in redacted["env"]
    assert redacted[static] == ["db.password", "list.1", "note"]
    settings = json.loads(found[static])
    assert settings["note"] == settings["db.password"], "one secret has one mark everywhere"
    assert settings["list.1"].startswith("https://<redacted:")
    assert settings["list.1"].endswith("@h/x")
    assert settings["lr"] == {"description": "duplicate_value", "values": [0.1, "1"]}
    printed = capsys.readouterr().out
    assert f"redacted in {static}: db.password, list.1, note" in printed
    for secret in ("swordfish", "haddock", "pollack"):
        assert secret not in printed + str(found)


def test_two_packs_show_whether_their_secrets_are_equal(tmp_path, capsys, monkeypatch):
    def pack(name, secret):
        (tmp_path / "conf.yaml").write_text(f"db_password: {secret}\nlr: 0.1\nextra: curl -u me:{secret} x\n")
        assert main(["config_check", "-d", str(tmp_path / "conf.yaml"), "-o", str(tmp_path / name)]) == 0

    pack("a.zip", "swordfish")
    pack("b.zip", "swordfish")
    pack("c.zip", "haddock")
    capsys.readouterr()

    def compare(one, other):
        sides = [str(tmp_path / name) for name in (one, other)]
        code = main(["config_check", "-c", *sides, "-o", str(tmp_path / "out")])
        return code, capsys.readouterr().out

    code, printed = compare("a.zip", "b.zip")
    assert code == 0, printed
    assert "hyperparameters: pass" in printed.splitlines()
    code, printed = compare("a.zip", "c.zip")
    assert code == 1
    assert "hyperparameters: error (1 error, 1 info)" in printed.splitlines()
    monkeypatch.setenv(redaction.SALT, "mine")
    pack("d.zip", "swordfish")
    code, printed = compare("a.zip", "d.zip")
    assert "hyperparameters: warning (1 warning, 1 info)" in printed.splitlines(), "another salt: nobody can tell"


def test_hundreds_of_secrets_are_packed_in_seconds(tmp_path, capsys):
    text = "".join(f"s{n}_password: swordfish-{n}\n" for n in range(900))
    (tmp_path / "conf.yaml").write_text(text)
    assert main(["config_check", "-d", str(tmp_path / "conf.yaml"), "-o", str(tmp_path / "a.zip")]) == 0
    settings = json.loads(entries(tmp_path / "a.zip")["hyperparameters/hyperparameters_static.json"])
    assert all(redaction.is_redacted(value) for value in settings.values())
    assert len(capsys.readouterr().out.splitlines()[-2]) < 1000, "the console names the first ones"
