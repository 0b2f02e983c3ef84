"""The journal of an unfinished comparison: what is in it is not computed again, and it never gets in the way."""

import errno
import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from msprobe.base import log
from msprobe.compare.workers import resume
from msprobe.compare.workers.resume import Resume, fingerprint

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    monkeypatch.setattr(log, "_logged", set())


def journal(folder):
    (file,) = folder.glob(".compare-*.jsonl")
    return file


def test_results_come_back_exactly(tmp_path):
    outcomes = {
        "floats": [0.1, 1 / 3, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf],
        "values": {"grade": "pass", "none": None, "yes": True, "large": 2**70, "text": 'a\n"ü\u2028\ud800'},
        "": [],
    }
    with Resume(tmp_path, "key") as kept:
        assert kept.known() == {}
        for task, result in outcomes.items():
            kept.add(task, result)
        kept.add("nan", math.nan)
    with Resume(tmp_path, "key") as again:
        found = dict(again.known())
    assert math.isnan(found.pop("nan"))
    assert found == outcomes
    assert math.copysign(1, found["floats"][2]) == -1


def test_the_last_of_two_results_of_a_task_counts(tmp_path):
    with Resume(tmp_path, "key") as kept:
        kept.add("a", 1)
        kept.add("a", 2)
    with Resume(tmp_path, "key") as again:
        assert again.known() == {"a": 2}


def test_done_leaves_nothing(tmp_path):
    kept = Resume(tmp_path, "key")
    kept.add("a", 1)
    kept.done()
    assert list(tmp_path.iterdir()) == []
    kept.add("b", 2)
    kept.done()
    assert list(tmp_path.iterdir()) == []


def test_another_key_has_another_journal(tmp_path):
    with Resume(tmp_path, "one") as one:
        one.add("a", 1)
        with Resume(tmp_path, "two") as two:
            assert two.known() == {}
            two.add("a", 2)
    with Resume(tmp_path, "one") as again:
        assert again.known() == {"a": 1}


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_torn_last_line_is_dropped_and_written_over(tmp_path, cut):
    with Resume(tmp_path, "key") as kept:
        kept.add("a", 1)
        kept.add("b", 22)
    file = journal(tmp_path)
    file.write_bytes(file.read_bytes()[:-cut])
    with Resume(tmp_path, "key") as again:
        assert again.known() == {"a": 1}
        again.add("c", 3)
    with Resume(tmp_path, "key") as third:
        assert third.known() == {"a": 1, "c": 3}


@pytest.mark.parametrize(
    "rest", [b"\0\0\0\0\n", b"[1,2,3]\n", b"7\n", b"{\n", b"\xff\xfe\n", b'[["a"],1]\n', b"[" * 99999 + b"\n"]
)
def test_what_follows_a_broken_line_is_not_believed(tmp_path, rest):
    with Resume(tmp_path, "key") as kept:
        kept.add("a", 1)
    with journal(tmp_path).open("ab") as file:
        file.write(rest + b'["b",2]\n')
    with Resume(tmp_path, "key") as again:
        assert again.known() == {"a": 1}


@pytest.mark.parametrize("field", ["journal", "msprobe", "key"])
def test_a_journal_of_another_version_or_key_is_begun_anew(tmp_path, field):
    with Resume(tmp_path, "key") as kept:
        kept.add("a", 1)
    file = journal(tmp_path)
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), field: "other"}), *others, ""]))
    with Resume(tmp_path, "key") as again:
        assert again.known() == {}
        again.add("b", 2)
    with Resume(tmp_path, "key") as third:
        assert third.known() == {"b": 2}


def test_a_second_process_works_without_and_says_so_once(tmp_path, capsys):
    with Resume(tmp_path, "key") as first:
        first.add("a", 1)
        for _ in range(2):  # a lock belongs to the opening, so a second one in this process is refused alike
            second = Resume(tmp_path, "key")
            assert second.known() == {}
            second.add("b", 2)
            second.done()
        first.add("c", 3)
    assert capsys.readouterr().err.count("another process runs") == 1
    with Resume(tmp_path, "key") as again:
        assert again.known() == {"a": 1, "c": 3}


def test_where_no_journal_can_be_the_work_goes_on(tmp_path, capsys):
    for _ in range(2):
        kept = Resume(tmp_path / "missing", "key")
        assert kept.known() == {}
        kept.add("a", 1)
        kept.done()
    assert capsys.readouterr().err.count("cannot be resumed") == 1


def test_a_link_in_the_place_of_the_journal_is_not_followed(tmp_path, capsys):
    folder = tmp_path / "out"
    folder.mkdir()
    with Resume(folder, "key"):
        pass
    file = journal(folder)
    file.unlink()
    precious = tmp_path / "precious"
    precious.write_text("keep")
    file.symlink_to(precious)
    with Resume(folder, "key") as kept:
        kept.add("a", 1)
    assert precious.read_text() == "keep"
    assert "cannot be resumed" in capsys.readouterr().err


def test_a_disk_that_fills_up_keeps_what_was_whole(tmp_path, monkeypatch, capsys):
    kept = Resume(tmp_path, "key")
    kept.add("a", 1)
    write = os.write

    def full(number, line):
        monkeypatch.setattr(resume.os, "write", nothing_fits)
        return write(number, line[:3])

    def nothing_fits(number, line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(resume.os, "write", full)
    kept.add("b", 2)
    monkeypatch.undo()
    kept.add("c", 3)
    kept.done()
    assert capsys.readouterr().err.count("No space left on device") == 1
    with Resume(tmp_path, "key") as again:
        assert again.known() == {"a": 1}


def test_a_fingerprint_follows_size_time_and_presence(tmp_path, monkeypatch):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"1")
    seen = [fingerprint([a, b])]
    b.write_bytes(b"1")
    seen.append(fingerprint([a, b]))
    b.write_bytes(b"22")
    seen.append(fingerprint([a, b]))
    state = b.stat()
    os.utime(b, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    seen.append(fingerprint([a, b]))
    seen.append(fingerprint([b]))
    assert len(set(seen)) == 5
    monkeypatch.chdir(tmp_path)
    assert fingerprint(["b", "a"]) == fingerprint([a, str(b)]) == seen[3], "neither order nor spelling matters"


def test_a_name_that_is_no_text_has_a_fingerprint(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff"
    with open(path, "wb"):
        pass
    assert fingerprint([os.fsdecode(path)]) != fingerprint([])


COMPARISON = """
import sys, time
from pathlib import Path
import numpy as np
from msprobe.compare.measure.tensors import measure
from msprobe.compare.workers.resume import Resume, fingerprint
from msprobe.compare.core.standard import standard_of

folder = Path(sys.argv[1])
files = sorted(folder.glob("*.npy"))
with Resume(folder, fingerprint(files)) as kept:
    results = dict(kept.known())
    for file in files:
        if file.name in results:
            continue
        with open(folder / "computed", "a") as log:
            log.write(file.name + "\\n")
        target = np.load(file)
        golden = target + np.float32(0.125) * (np.arange(4) == 1)
        measured = measure(target, golden.astype(np.float32), standard_of("Float32"))
        results[file.name] = [measured.cosine, measured.euclid, measured.max_relative]
        kept.add(file.name, results[file.name])
        while len(results) == int(sys.argv[2]):
            time.sleep(60)
    kept.done()
print(sorted(results.items()))
"""


def test_after_a_kill_only_the_rest_is_computed_and_the_results_are_equal(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for folder in (killed, whole):
        folder.mkdir()
        for n in range(6):
            np.save(folder / f"{n}.npy", np.random.default_rng(n).standard_normal(4).astype(np.float32))
    command = [sys.executable, "-c", COMPARISON]
    with subprocess.Popen([*command, str(killed), "4"]) as process:
        end = time.monotonic() + 30
        while not any(file.read_bytes().count(b"\n") == 5 for file in killed.glob(".compare-*.jsonl")):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert (killed / "computed").read_text().split() == [f"{n}.npy" for n in range(4)]
    outputs = [
        subprocess.run([*command, str(folder), "-1"], capture_output=True, text=True, check=True, timeout=50).stdout
        for folder in (killed, whole)
    ]
    assert (killed / "computed").read_text().split() == [f"{n}.npy" for n in range(6)], "each file once"
    assert outputs[0] == outputs[1]
    assert outputs[0].count(".npy") == 6
    assert not list(killed.glob(".compare-*"))


def test_a_changed_input_is_computed_again(tmp_path):
    file = tmp_path / "dump.json"
    file.write_text("{}")
    with Resume(tmp_path, fingerprint([file])) as kept:
        kept.add("a", 1)
    file.write_text("{ }")
    with Resume(tmp_path, fingerprint([file])) as again:
        assert again.known() == {}
