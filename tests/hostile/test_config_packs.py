"""Packs that somebody made to do harm: refused in one line, quickly, with nothing written outside of the result."""

import json
import os
import stat
import struct
import time
import zipfile
from dataclasses import replace

import pytest

from msprobe.cli import main
from msprobe.store import config_pack

pytestmark = pytest.mark.part(3)

ENV = json.dumps({"A": "1"})
WEIGHTS = "weights/step0/rank0/weight.json"


def good(path):
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("env", ENV)
        made.writestr("pip", "numpy=1\n")
        made.writestr(WEIGHTS, json.dumps({"w": {"max": 1, "min": 1, "mean": 1, "norm": 1}}))
    return path


def named(name):
    def make(path):
        with zipfile.ZipFile(path, "w") as made:
            made.writestr("env", ENV)
            made.writestr(name, "owned")

    return make


def twice(path):
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("env", ENV)
        made.writestr("enw", json.dumps({"A": "2"}))
    path.write_bytes(path.read_bytes().replace(b"enw", b"env"))


def link(path):
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("pip", "")
        entry = zipfile.ZipInfo("env")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(entry, "/etc/passwd")


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("env", b" " * (200 << 20))


def huge(path):
    """An entry that claims 1 TiB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as made:
        made.writestr("env", ENV)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 0xFFFFFFFE)
    path.write_bytes(data)


def liar(path):
    """An entry that is longer than it claims."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("env", ENV * 1000)
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + 24, 5)
    path.write_bytes(data)


def encrypted(path):
    good(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)


def compressed(method):
    def make(path):
        with zipfile.ZipFile(path, "w", method) as made:
            made.writestr("env", ENV)

    return make


def holds(name, content):
    def make(path):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("env", ENV)
            if name != "env":
                made.writestr(name, content)
        if name == "env":
            with zipfile.ZipFile(path, "w") as made:
                made.writestr("env", content)

    return make


def cut(path):
    good(path)
    path.write_bytes(path.read_bytes()[:-30])


def damaged(path):
    good(path)
    data = bytearray(path.read_bytes())
    at = data.index(ENV.encode())
    data[at + 3] ^= 0xFF
    path.write_bytes(data)


REFUSED = {
    "a name that climbs": (named("../../owned"), "leads out of the archive"),
    "a name that climbs later": (named("env/../../owned"), "leads out of the archive"),
    "an absolute name": (named("/tmp/owned"), "absolute path"),
    "a name of Windows": (named("C:\\owned"), "absolute path"),
    "backslashes": (named("..\\owned"), "absolute path"),
    "two entries of one name": (twice, "has two entries"),
    "a link": (link, "is a link"),
    "a bomb": (bomb, "times its size"),
    "a size that lies": (huge, "unpacks to"),
    "a size that is too small": (liar, "env cannot be read"),
    "an encrypted entry": (encrypted, "is encrypted"),
    "lzma": (compressed(zipfile.ZIP_LZMA), "an unsupported compression method"),
    "bzip2": (compressed(zipfile.ZIP_BZIP2), "an unsupported compression method"),
    "an end that is cut off": (cut, "not a readable zip file"),
    "a flipped bit": (damaged, "env cannot be read"),
    "no zip": (lambda path: path.write_text("PK"), "not a readable zip file"),
    "nothing": (lambda path: path.touch(), "not a readable zip file"),
    "a pipe": (os.mkfifo, "cannot be read"),
    "a folder": (lambda path: path.mkdir(), "cannot be read"),
    "no such file": (lambda path: None, "cannot be read"),
    "a symbolic link to itself": (lambda path: path.symlink_to(path.name), "cannot be read"),
    "another zip": (holds("env", ENV), None),
    "a list": (holds("env", "[1]"), "not a JSON object"),
    "a number": (holds("env", "9" * 100_000), "not a JSON object"),
    "nested too deeply": (holds("env", "[" * 1_000_000), "is not valid JSON"),
    "objects without end": (holds("env", '{"a":' * 1_000_000), "is not valid JSON"),
    "Latin-1": (holds("env", '{"a": "\xe4"}'.encode("latin-1")), "cannot be read"),
    "weights that are a list": (holds(WEIGHTS, "[]"), None),
    "other entries": (
        lambda path: zipfile.ZipFile(path, "w").writestr("notes", "x"),
        "does not contain a configuration",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_pack_that_nobody_who_packs_makes_is_refused(case, tmp_path, monkeypatch, capsys):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    make, message = REFUSED[case]
    evil, fine = tmp_path / "evil.zip", good(tmp_path / "fine.zip")
    make(evil)
    for sides in ((evil, fine), (fine, evil)):
        begun = time.monotonic()
        code = main(["config_check", "-c", *map(str, sides), "-o", str(tmp_path / "result")])
        captured = capsys.readouterr()
        assert time.monotonic() - begun < 10
        if message is None:
            assert code in (0, 1, 2)
        else:
            assert (code, captured.out) == (2, "")
            assert message in captured.err
            assert len(captured.err.splitlines()) == 1
            assert not (tmp_path / "result" / "result.xlsx").exists()
    assert not list(tmp_path.rglob("owned"))
    assert "root:" not in captured.out + captured.err


ODD = {
    "env": ['{"A": 1, "B": null, "C": [1], "D": {"x": 1}}', "{}"],
    "pip": ["=\n==\nx\n=1\n\n" + "y" * 100_000, "\0"],
    WEIGHTS: [
        '{"w": {"max": "x", "min": 1, "mean": 1, "norm": 1}}',
        '{"w": {"max": 1e999, "min": -1e999, "mean": NaN, "norm": 1}}',
        '{"w": {"max": ' + "9" * 4000 + ', "min": 1, "mean": 1, "norm": 1}}',
        '{"w": {"max": true, "min": false, "mean": 1, "norm": 1}, "": {}, "a\\ud800": 1}',
        '{"w":' * 900 + "1" + "}" * 900,
    ],
    "dataset/step0/rank0/dataset.json": ["{}", '{"args": [1, 2], "kwargs": "x"}'],
    "dataset/step999999999999/rank0/dataset.json": ['{"args": {}}'],
    "random/rank0.json": [
        '{"torch.rand": {}, "x": [1, {}, {"count": "1", "stack": []}, {"count": 1, "stack": "x"}]}',
        '{"torch.rand": [{"count": -5, "stack": [1, null, {"a": 1}]}, {"count": 1e400, "stack": []}]}',
        '{"": [{"count": 1, "stack": ["' + "a" * 100_000 + '"]}]}',
    ],
    "hyperparameters/hyperparameters_static.json": [
        '{"a": {"b": {"c": [1, [2, [3]]]}}, "d": {}, "e": [], "": 1}',
        '{"a": 1e999, "b": NaN, "c": "\\u0000\\u001b[31m"}',
        json.dumps({"n" * 100_000: 1, "m" * 99_999: 1}),
    ],
    "context": ['{"framework": 5, "mode": [1], "deterministic": {}}', "{}"],
    "pack.json": ['{"framework": [], "random_functions": 7, "tool": {}}', '{"random_functions": [[], {}]}'],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_content_is_compared_or_refused_without_a_traceback(name, tmp_path, capsys):
    for number, content in enumerate(ODD[name]):
        odd, fine = tmp_path / f"odd{number}.zip", tmp_path / f"fine{number}.zip"
        for path, held in ((odd, content), (fine, "numpy=1" if name == "pip" else '{"A": "1"}')):
            with zipfile.ZipFile(path, "w") as made:
                if name != "env":
                    made.writestr("env", ENV)
                made.writestr(name, held)
        for sides in ((odd, fine), (fine, odd), (odd, odd)):
            code = main(["config_check", "-c", *map(str, sides), "-o", str(tmp_path / "result")])
            captured = capsys.readouterr()
            assert code in (0, 1, 2), captured
            assert "\x1b" not in captured.out + captured.err


@pytest.mark.slow
def test_names_that_are_all_alike_do_not_take_for_ever(tmp_path):
    for side, shift in (("a", 0), ("b", 1)):
        letters = [chr(97 + n % 26) + chr(97 + n // 26 % 26) + chr(97 + n // 676) for n in range(2 * 1500)]
        settings = {"xy" * 48 + letters[2 * n + shift]: n for n in range(1500)}
        with zipfile.ZipFile(tmp_path / f"{side}.zip", "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("hyperparameters/hyperparameters_static.json", json.dumps(settings))
    begun = time.monotonic()
    assert (
        main(["config_check", "-c", str(tmp_path / "a.zip"), str(tmp_path / "b.zip"), "-o", str(tmp_path / "r")]) == 1
    )
    assert time.monotonic() - begun < 30


def test_an_archive_of_a_million_entries_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(config_pack, "_LIMITS", replace(config_pack._LIMITS, entries=2))
    path = good(tmp_path / "many.zip")
    assert main(["config_check", "-c", str(path), str(path), "-o", str(tmp_path / "r")]) == 2
