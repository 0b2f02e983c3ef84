"""Bundles that somebody made to do harm: refused in one line, with nothing written outside of the temporary folder."""

import json
import os
import stat
import struct
import tempfile
import zipfile
from pathlib import Path

import pytest

from msprobe.store import archive, bundle

SAMPLES = Path(__file__).parents[1] / "samples"
DUMP = "target/step0/rank0/dump.json"


def data(value=1.0):
    leaf = {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": [1],
        "Max": value,
        "Min": value,
        "Mean": value,
        "Norm": value,
    }
    entry = {"input_args": [leaf], "input_kwargs": {}, "output": [leaf]}
    return json.dumps(
        {"task": "statistics", "level": "L1", "framework": "mindspore", "data": {"Mint.exp.0.forward": entry}}
    )


def about(**more):
    held = {
        "format": bundle.FORMAT,
        "format_version": 1,
        "options": {},
        "sides": {"target": {"path": ""}, "golden": {"path": ""}},
    }
    return json.dumps({**held, **more})


def write(path, entries, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as made:
        for name, content in entries.items():
            made.writestr(name, content)


def good():
    return {"bundle.json": about(), DUMP: data(), DUMP.replace("target", "golden"): data()}


def with_entry(name, content="owned"):
    return lambda path: write(path, {**good(), name: content})


def with_about(**more):
    return lambda path: write(path, {**good(), "bundle.json": about(**more)})


def twice(path):
    write(path, {**good(), "target/step0/rank0/dump.jsom": data()})
    path.write_bytes(path.read_bytes().replace(b"dump.jsom", b"dump.json"))


def link(path):
    with zipfile.ZipFile(path, "w") as made:
        for name, content in good().items():
            made.writestr(name, content)
        entry = zipfile.ZipInfo("target/step0/rank0/stack.json")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(entry, "/etc/passwd")


def changed(where, value, width="<I"):
    """A bundle with a number of the last entry of its directory changed."""

    def make(path):
        write(path, good())
        content = bytearray(path.read_bytes())
        struct.pack_into(width, content, content.rindex(b"PK\x01\x02") + where, value)
        path.write_bytes(content)

    return make


def cut(path):
    write(path, good())
    path.write_bytes(path.read_bytes()[:-30])


def damaged(path):
    write(path, good(), zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"Mint.exp")] ^= 0xFF
    path.write_bytes(content)


def overlapping(path):
    """The directory names the bytes of one entry several times."""
    names = [f"target/step0/rank{n}/dump.json" for n in range(3)]
    write(path, {**good(), **{name: os.urandom(50_000) for name in names}}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    found, at = [], content.index(b"PK\x01\x02")
    while at >= 0:
        found.append(at)
        at = content.find(b"PK\x01\x02", at + 4)
    sizes = [struct.unpack_from("<II", content, place + 20) for place in found]
    for place in found[1:]:  # all of them claim to be as long as the whole
        struct.pack_into("<II", content, place + 20, *([max(map(max, sizes))] * 2))
    path.write_bytes(content)


REFUSED = {
    "a name that climbs": (with_entry("target/../../owned.json"), "leads out of the archive"),
    "an absolute name": (with_entry("/tmp/owned.json"), "absolute path"),
    "a name of Windows": (with_entry("C:\\owned.json"), "absolute path"),
    "another folder": (with_entry("home/owned.json"), "is not part of a bundle"),
    "a dot": (with_entry("target/./owned.json"), "not a valid path of a bundle"),
    "an empty part": (with_entry("target//owned.json"), "not a valid path of a bundle"),
    "a long name": (with_entry(f"target/{'x' * 300}.json"), "not a valid path of a bundle"),
    "a deep name": (with_entry(f"target/{'x/' * 40}y.json"), "not a valid path of a bundle"),
    "a pickle": (with_entry("target/step0/rank0/dump_tensor_data/x.pt"), "file type"),
    "a script": (with_entry("target/x.py"), "file type"),
    "two entries of a name": (twice, "two entries"),
    "a link": (link, "link or a device"),
    "a bomb": (with_entry("target/x.npy", bytes(300 << 20)), "times its size"),
    "a size that cannot be": (changed(24, 0xFFFFFFFE), "times its size"),
    "an encrypted entry": (changed(8, 1, "<H"), "encrypted"),
    "another method": (lambda path: write(path, good(), zipfile.ZIP_LZMA), "an unsupported compression method"),
    "entries that overlap": (overlapping, "overlap"),
    "a damaged entry": (damaged, "is damaged"),
    "a file below a file": (with_entry(f"{DUMP}/x.json"), "cannot be unpacked"),
    "a later version": (with_about(format_version=2), "install a newer version"),
    "no version": (with_about(format_version=True), "has no format_version"),
    "another format": (with_about(format="x"), "cannot be read"),
    "no side": (with_about(sides={}), "does not have the path of the target"),
    "a side that climbs": (with_about(sides={"target": {"path": "../.."}}), "does not have the path of the target"),
    "a side elsewhere": (with_about(sides={"target": {"path": "/etc"}}), "does not have the path of the target"),
    "a side that is missing": (with_about(sides={"target": {"path": "step9"}}), "has no entry target/step9"),
    "a file of this machine": (with_about(options={"noise": "/etc/passwd"}), "option 'noise'"),
    "a mapping of this machine": (with_about(options={"data_mapping": {"file": "/etc/passwd"}}), "option 'data_map"),
    "a mapping that climbs": (with_about(options={"data_mapping": {"file": "options/../x.yaml"}}), "option 'data_map"),
    "an output": (with_about(options={"output_path": "/tmp/owned"}), "option 'output_path'"),
    "a scheduler": (with_about(options={"scheduler": "tcp://10.0.0.1:80"}), "option 'scheduler'"),
    "an option of another kind": (with_about(options={"atol": "1"}), "option 'atol'"),
    "broken JSON": (with_entry("bundle.json", "{"), ""),
}  # fmt: skip


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("case", REFUSED)
def test_a_hostile_bundle_is_refused_in_one_line(case, runs, tmp_path, temporary):
    make, text = REFUSED[case]
    path = tmp_path / "b.zip"
    if case == "broken JSON":
        write(path, {**good(), "bundle.json": "{"})
    else:
        make(path)
    before = {each for each in tmp_path.rglob("*")}
    code, out, err = runs("compare", path, "-o", tmp_path / "out")
    lines = [line for line in err.splitlines() if " INFO: " not in line]
    assert (code, out, len(lines)) == (2, "", 1), (out, err)
    assert text in lines[0]
    assert len(lines[0]) < 2000
    assert list(temporary.iterdir()) == [], "everything is removed"
    assert {each for each in tmp_path.rglob("*")} - before == set()


def test_the_good_one_is_read(runs, tmp_path, temporary):
    write(tmp_path / "b.zip", good())
    assert runs.compare(tmp_path / "b.zip").code == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("verb", ["compare", "diagnose", "report"])
@pytest.mark.parametrize("content", ["", "garbage", "an empty zip", "a folder", "a cut file"])
def test_what_is_not_a_bundle_is_refused_in_one_line(verb, content, runs, tmp_path):
    path = tmp_path / "b.zip"
    if content == "a folder":
        path.mkdir()
    elif content == "a cut file":
        cut(path)
    else:
        path.write_bytes(b"PK\x05\x06" + bytes(18) if "zip" in content else content.encode())
    code, out, err = runs(verb, path)
    lines = [line for line in err.splitlines() if " INFO: " not in line]
    assert (code, out, len(lines)) == (2, "", 1), (out, err)


def test_a_bundle_beside_another_path_is_refused(runs, tmp_path):
    write(tmp_path / "b.zip", good())
    for verb in ("compare", "diagnose"):
        code, _, err = runs(verb, tmp_path / "b.zip", SAMPLES / "26.2.0/dumps/ms_mix_stat")
        assert (code, "give only the bundle" in err) == (2, True)
    code, _, err = runs("compare", tmp_path / "b.zip", "--scheduler", "tcp://127.0.0.1:1")
    assert (code, "--scheduler" in err) == (2, True)


def test_a_disk_without_room_is_one_line(runs, tmp_path, monkeypatch):
    write(tmp_path / "b.zip", good())
    full = lambda _: type("Usage", (), {"free": 1 << 20})  # noqa: E731
    monkeypatch.setattr(archive.shutil, "disk_usage", full)
    code, _, err = runs("compare", tmp_path / "b.zip")
    assert (code, "TMPDIR" in err) == (2, True)


def test_what_shrinks_to_nothing_is_stored_so_that_it_can_be_read(runs, copied):
    """The elements of an array of zeros shrink further than a reader accepts."""
    import numpy as np

    target = copied("26.2.0/dumps/ms_mix_tensor/step0/proc11154/dump_tensor_data", "t")
    for path in target.glob("*.npy"):
        path.unlink()
    np.save(target / "x.npy", np.zeros((2 << 20,), np.float32))
    file, _ = runs.bundle(target, target, "--tensors")
    assert runs.compare(file).code == 0


def test_a_dump_that_is_hostile_is_left_out_or_packed_and_never_followed(runs, copied, tmp_path, entries):
    target = copied("26.2.0/dumps/ms_mix_tensor", "t")
    outside = tmp_path / "outside.npy"
    outside.write_bytes(next(target.rglob("*.npy")).read_bytes())
    dump = next(target.rglob("dump.json"))
    held = json.loads(dump.read_text())
    names = iter(["../../../outside.npy", "/etc/passwd", "a/b.npy", "..", "x.py"])
    for entry in held["data"].values():
        for record in entry.get("input_args", []):
            if isinstance(record, dict) and "data_name" in record and (name := next(names, None)):
                record["data_name"] = name
    dump.write_text(json.dumps(held))
    (dump.parent / "stack.json").write_text("{")
    golden = SAMPLES / "26.2.0/dumps/ms_mix_tensor"
    file, out = runs.bundle(target, golden, "--tensors", code=1)
    assert "omitted: " in out
    found = entries(file)
    assert not any("outside" in name or "passwd" in name for name in found)
    assert runs.compare(file).code == runs.compare(target, golden).code
