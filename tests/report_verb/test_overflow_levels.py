"""Overflow marks: the levels of each call by its records, and what says nothing."""

import math

import pytest
from pages import Page
from written_net import forward, tensor, write_net

from msprobe.cli import main

NAN, INF = math.nan, math.inf
FINE, BAD = tensor(1.0), tensor(INF)

CASES = {
    "critical": ("Mint.log.0.forward", forward([FINE], [tensor(NAN)]), "c"),
    "of several outputs": ("Mint.split.0.forward", forward([FINE], [FINE, BAD]), "c"),
    "high": ("Mint.exp.0.forward", forward([BAD], [BAD]), "h"),
    "medium": ("Mint.clamp.0.forward", forward([tensor(1.0, low=-INF)], [FINE]), "m"),
    "by the mean": ("Mint.mul.0.forward", forward([FINE], [tensor(1.0, mean=NAN)]), "c"),
    "grows": ("Mint.mul.1.forward", forward([tensor(1.0, norm=2.0)], [tensor(1.0, norm=201.0)]), "h"),
    "grows little": ("Mint.mul.2.forward", forward([tensor(1.0, norm=2.0)], [tensor(1.0, norm=200.0)]), "."),
    "from zero": ("Mint.add.0.forward", forward([tensor(0.0, norm=0.0)], [tensor(1.0, norm=101.0)]), "h"),
    "from zero, little": ("Mint.add.1.forward", forward([tensor(0.0, norm=0.0)], [tensor(1.0, norm=100.0)]), "."),
    "no input": ("Mint.ones.0.forward", forward([], [tensor(1.0, norm=1e6)]), "."),
    "a value": ("Mint.full.0.forward", forward([{"type": "float", "value": "inf"}], [FINE]), "."),
    "memory": ("Mint.empty.0.forward", forward([FINE], [tensor(NAN)]), "."),
    "torch's memory": ("Torch.empty_like.0.forward", forward([FINE], [tensor(NAN)]), "."),
    "received": ("MintDistributed.all_gather_into_tensor.0.forward", forward([BAD, FINE], [FINE]), "."),
    "received wrong": ("Distributed.recv.0.forward", forward([BAD], [BAD]), "c"),
    "filled": ("Tensor.masked_fill_.0.forward", forward([BAD, FINE], [FINE]), "."),
    "backward": ("Mint.log.0.backward", {"input": [FINE], "output": [BAD]}, "c"),
}


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overflow")
    write_net(folder / "run", extra={name: entry for name, entry, _ in CASES.values()})
    return folder / "run"


def test_each_level(marks, tmp_path):
    main(["report", str(marks), "-o", str(tmp_path / "page.html"), "--as", "dump"])
    _, layout, state, _ = Page(tmp_path / "page.html").unit()
    found = dict(zip(layout["names"], state["overflow"], strict=True))
    assert {case: found[name] for case, (name, _, _) in CASES.items()} == {
        case: letter for case, (_, _, letter) in CASES.items()
    }


def test_a_finite_dump_has_no_marks(tmp_path):
    write_net(tmp_path / "run")
    main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "page.html")])
    assert "overflow" not in Page(tmp_path / "page.html").unit()[2]


def test_marks_stand_in_a_comparison_too(marks, tmp_path):
    main(["report", str(marks), str(marks), "-o", str(tmp_path / "page.html")])
    _, layout, state, _ = Page(tmp_path / "page.html").unit()
    assert state["overflow"][layout["names"].index("Mint.log.0.forward")] == "c"
