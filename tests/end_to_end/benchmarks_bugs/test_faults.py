"""Every seeded fault can be planted, and its truth can be read."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def fault(bench):
    import fault

    return fault


@pytest.mark.parametrize("chosen", ["tuning", "held-out"])
def test_replaced_text_stands_in_the_net_once(fault, bench, chosen):
    for one in fault.load(chosen):
        source = (bench / "nets_mindspore" / f"{one.net}.py").read_text()
        for patch in one.planted.get("text", []):
            assert source.count(patch["old"]) == patch.get("times", 1), (one.name, patch["old"])
            source = source.replace(patch["old"], patch["new"])
        compile(source, one.name, "exec")


@pytest.mark.parametrize("chosen", ["tuning", "held-out"])
def test_a_fault_says_what_may_be_named(fault, chosen):
    for one in fault.load(chosen):
        assert one.harmless or (one.places_of("tensor") and one.kinds), one.name
        assert one.shown[-1] < one.steps, one.name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Functional.softmax.forward#1 @ blocks.0.attention",
            ("target", "Functional.softmax.forward#1", "blocks.0.attention", 0),
        ),
        ("Functional.add.forward @ layers.0:2", ("target", "Functional.add.forward", "layers.0", 2)),
        ("Functional.mul.forward @", ("target", "Functional.mul.forward", "", 0)),
        ("golden: * @ norm", ("golden", "*", "norm", 0)),
        ("torch: Module.blocks.0.norm:1", ("torch", "itself", "blocks.0.norm", 1)),
        ("Functional.tanh.2.forward", ("target", "Functional.tanh.2.forward", None, 0)),
        ("*", ("target", "*", None, 0)),
    ],
)
def test_a_place_is_read(fault, text, expected):
    found = fault.place(text)
    assert (found.side, found.what, found.path, found.run) == expected


def test_places_become_names(fault, tmp_path):
    import expected

    attention, dense = "Cell.attention.Attention.forward.0", "Cell.attention.out.Dense.forward.0"
    nesting = {
        "Functional.mul.0.forward": None,
        "Functional.mul.1.forward": attention,
        "Functional.mul.2.forward": attention,
        "Primitive.matmul.MatMul.0.forward": dense,
        dense: attention,
        attention: None,
        "Functional.mul.2.backward": "Cell.attention.Attention.backward.0",
    }
    rank = tmp_path / "rank"
    rank.mkdir()
    (rank / "dump.json").write_text(json.dumps({"data": {name: {} for name in nesting}}))
    (rank / "construct.json").write_text(json.dumps(nesting))
    records = expected.Records(tmp_path)

    def names(text):
        return records.find(fault.place(text))

    assert names("Functional.mul.forward @") == ["Functional.mul.0.forward"]
    assert names("Functional.mul.forward#1 @ attention") == ["Functional.mul.2.forward"]
    assert names("Functional.mul.backward @ attention") == ["Functional.mul.2.backward"]
    assert names("* @ attention") == ["Functional.mul.1.forward", "Functional.mul.2.forward"]
    assert names("Cell.attention.out") == [dense]
    assert names("* @ attention:1") == []
    assert records.layer("Primitive.matmul.MatMul.0.forward") == [dense, "Primitive.matmul.MatMul.0.forward"]
    assert records.layer("Functional.mul.1.forward") == []
    assert records.cells_that_show("Functional.mul.1.forward", records) == [attention, dense]


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        ({}, [[1, 2], [3, 4]]),
        ({"scale": 2}, [[2, 4], [6, 8]]),
        ({"at": [0], "shift": 1}, [[2, 3], [3, 4]]),
        ({"at": [None, 1], "set": 9}, [[1, 9], [3, 9]]),
        ({"transpose": True}, [[1, 3], [2, 4]]),
        ({"reverse": 0}, [[3, 4], [1, 2]]),
        ({"at": [1], "roll": 1}, [[1, 2], [4, 3]]),
    ],
)
def test_an_effect_changes_what_it_says(bench, effect, expected):
    from effects import changed

    inputs = np.array([[1, 2], [3, 4]], np.float32)
    assert changed(inputs, effect).tolist() == expected
    assert inputs.tolist() == [[1, 2], [3, 4]]


def test_bits_of_the_mantissa_are_kept(bench):
    from effects import changed

    # 1 + 2**-3 + 2**-5 with three bits is 1 + 2**-3
    assert changed(np.array([1.15625], np.float32), {"keep_bits": 3}).tolist() == [1.125]
