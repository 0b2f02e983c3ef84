"""Dumps of other tools and of earlier versions may hold secrets: no table, report or graph of them does."""

import base64
import re
import zipfile
import zlib

import pytest

from msprobe.cli import main

CHUNK = re.compile(rb'<script type="text/plain" id="chunk-\d+">([A-Za-z0-9+/=]*)</script>')
SECRET = "swordfish"
STACK = [
    f'File /a/net.py, line 3, in construct, \n x = load(url, token="{SECRET}-a")',
    f'File /a/main.py, line 9, in <module>, \n os.environ["HF_TOKEN"] = "{SECRET}-b"',
]


@pytest.fixture
def dumps(builder, value):
    """Two dumps that differ, with secrets in their stacks and in the text that an API was given."""
    for side in ("t", "g"):
        made = builder(side)
        for n in range(3):
            made.call(
                f"Mint.exp.{n}.forward",
                [1.0, value(f"https://u:{SECRET}-c@host/x"), value(f"--password {SECRET}-d"), value("zeros")],
                [2.0 + 0.5 * (side == "t" and n > 1)],
                stack=STACK,
            )
        made.write()


def everything(folder):
    """Return all that the files of a folder hold, unpacked."""
    found = b""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            found += content
            found += b"".join(zlib.decompress(base64.b64decode(each)) for each in CHUNK.findall(content))
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as held:
                    found += b"".join(held.read(name) for name in held.namelist())
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "-tp", "t", "-gp", "g", "-o", "out"],
        ["compare", "-tp", "t", "-gp", "g", "-o", "out", "--format", "csv"],
        ["compare", "-tp", "t", "-gp", "g", "-o", "out", "--format", "json"],
        ["report", "t", "g", "-o", "out/page.html"],
        ["report", "t", "-o", "out/page.html"],
        ["diagnose", "t", "g", "-o", "out"],
        ["graph_visualize", "-tp", "t", "-gp", "g", "-o", "out"],
    ],
    ids=lambda words: " ".join(words[:1] + words[-2:]),
)
def test_no_result_holds_a_secret_of_a_dump(words, dumps, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    code = main(words)
    printed = capsys.readouterr()
    assert code in (0, 1), printed.err
    written = everything(tmp_path / "out")
    assert SECRET.encode() not in written
    assert SECRET not in printed.out + printed.err
    assert b"exp" in written, "the calls are there"
