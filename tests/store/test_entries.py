"""Entries that are scanned by the extension become the rows that Python makes of them."""

import json
import math
import random
import struct
from pathlib import Path

import pytest
from fuzz_entries import columns_of, run

from msprobe.store import flatten
from msprobe.store.flatten import ColumnsBuilder
from msprobe.store.reader import read
from msprobe.store.record import Columns, Dump

SAMPLES = Path(__file__).parents[1] / "samples"

pytestmark = pytest.mark.skipif(flatten.entries is None, reason="the extension is not built")


def scanned(entries: dict[str, object], **how: object) -> tuple[int, ColumnsBuilder]:
    """How many entries were scanned behind the first one, and the builder that has them."""
    text = json.dumps({"first": {}, **entries}, **how)
    builder = ColumnsBuilder()
    builder.add("first", {})
    builder.scan(text, text.index("{}") + 2)
    return len(builder.names) - 1, builder


def tensor(**more: object) -> dict[str, object]:
    numbers = {"Max": 1.5, "Min": -0.25, "Mean": 1e-3, "Norm": 3.75}
    return {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 3], **numbers, **more}


def nested(depth: int) -> object:
    return [nested(depth - 1)] if depth else tensor()


def walked(entries: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> Columns:
    """What Python makes of the same entries."""
    with monkeypatch.context() as patched:
        patched.setattr(flatten, "entries", None)
        builder = ColumnsBuilder()
        for name, entry in {"first": {}, **entries}.items():
            builder.add(name, entry)
        return builder.columns()


LIKE_MOST = {
    "arguments": {"input_args": [tensor(), tensor()], "input_kwargs": {}, "output": [tensor(shape=[])]},
    "keywords": {
        "input_args": [],
        "input_kwargs": {"mask": tensor(), "more": {"deep": [tensor()]}},
        "output": tensor(),
    },
    "backward": {"input": [tensor(), None], "output": [None, [tensor()]]},
    "parameters": {"input_args": None, "parameters": {"weight": tensor(), "bias.inner": tensor()}, "output": None},
    "values": {"input_args": [{"type": "int", "value": 3}, {"type": "slice", "value": [None, 4, 1.5, "x", True]}]},
    "texts": {"input_args": [{"type": "str", "value": "a, {b} [c]"}, {"type": "bool", "value": False}]},
    "saved": {"input_args": [tensor(data_name="a.npy", md5="0a1b")], "output": [tensor(requires_grad=False)]},
    "sources": {"input_args": [tensor(**{"from": "leaf"})], "output": [tensor(gradient="accumulated")]},
    "nothing": {},
    "counts": {"output": [tensor(nan_count=0)]},
}
UNLIKE = {
    "whole numbers": {"output": [tensor(Max=3)]},
    "not finite": {"output": [tensor(Norm=math.inf, positive_inf_count=1)]},
    "no statistics": {"output": [tensor(Mean=None)]},
    "an escape": {"input_args": [{"type": "str", "value": 'a "b"'}]},
    "another character": {"input_args": [{"type": "str", "value": "é"}]},
    "parts in another order": {"output": [tensor()], "input_args": [tensor()]},
    "lost parts": {"output": [tensor()], "missing": ["output.1"]},
    "a second run": {"output": [tensor()], "is_recompute": True},
    "a scalar": {"input_args": [3]},
    "no dtype": {"output": [{"type": "mindspore.Tensor", "shape": [1]}]},
    "a large number": {"input_args": [{"type": "int", "value": 10**30}]},
    "a type that comes late": {"output": [{"dtype": "Float32", "type": "mindspore.Tensor"}]},
    "more elements than there can be": {"output": [tensor(shape=[1 << 40, 1 << 40])]},
    "deep": {"output": nested(40)},
    "Cell.a.A.parameters_grad": {"weight": [tensor()]},
    "a.debug": tensor(),
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("kind", LIKE_MOST)
def test_like_most(kind: str, indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"before": LIKE_MOST["arguments"], kind: LIKE_MOST[kind], "behind": LIKE_MOST["keywords"]}
    count, builder = scanned(entries, indent=indent)
    assert count == 3
    assert columns_of(builder.columns()) == columns_of(walked(entries, monkeypatch))


@pytest.mark.always
@pytest.mark.parametrize("kind", UNLIKE)
def test_unlike_most(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is left to Python, and leaves nothing behind."""
    entries = {"before": LIKE_MOST["saved"], kind: UNLIKE[kind], "behind": LIKE_MOST["sources"]}
    count, builder = scanned(entries)
    assert count == 1
    assert columns_of(builder.columns()) == columns_of(walked({"before": entries["before"]}, monkeypatch))


def test_cut_off() -> None:
    """Wherever a text ends, what is whole is scanned, and nothing of what is not."""
    text = json.dumps({"first": {}, "second": LIKE_MOST["saved"], "third": LIKE_MOST["values"]})
    ends = [text.index(', "third"'), len(text) - 1]
    for length in range(text.index("{}") + 2, len(text) + 1):
        builder = ColumnsBuilder()
        builder.add("first", {})
        at = builder.scan(text[:length], text.index("{}") + 2)
        assert len(builder.names) == 1 + sum(end <= length for end in ends)
        assert at == ([text.index("{}") + 2, *ends])[len(builder.names) - 1]


def test_numbers() -> None:
    """Every double reads back as itself, however it is written."""
    draw = random.Random(0)
    texts = ["0.0", "-0.0", "5e-324", "1.7976931348623157e308", "2.2250738585072014e-308", "9007199254740993.0"]
    texts += ["1E5", "1e+05", "123456789012345678901234567890.5", "0.1", "0.30000000000000004", "4503599627370497.5"]
    for _ in range(2000):
        value = draw.choice((draw.gauss(0, 1), draw.random() * 10.0 ** draw.randint(-320, 308)))
        texts += [repr(value), f"{value:.16e}", f"{value:.8f}", f"{value:.25g}" if "." in f"{value:.25g}" else "1.0"]
        # Next to the middle of two doubles, where one rounding too many goes wrong.
        middle = draw.randint(1 << 52, (1 << 53) - 1)
        texts += [f"{2 * middle + 1}.0", f"{middle}.5", f"{middle}.49999", f"{middle}.50001"]
    numbers = [(text, float(text)) for text in texts if len(text) < 60]  # of more signs a number is left to Python
    leaf = '"type": "T", "dtype": "F", "shape": [1], "Max": {0}, "Min": {0}, "Mean": {0}, "Norm": {0}'
    bodies = (f'"{at}": {{"output": {{{leaf.format(text)}}}}}' for at, (text, _) in enumerate(numbers))
    builder = ColumnsBuilder()
    builder.add("first", {})
    builder.scan('{"first": {}, ' + ", ".join(bodies) + "}", len('{"first": {}'))
    columns = builder.columns()
    assert len(columns.max) == len(numbers)
    for (text, value), *found in zip(numbers, columns.max, columns.min, columns.mean, columns.norm, strict=True):
        for one in found:
            assert struct.pack("d", one) == struct.pack("d", value), text


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, id=str(file.relative_to(SAMPLES).parent)) for file in sorted(SAMPLES.rglob("dump.json"))],
)
def test_real_dumps(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_it() -> Dump:
        return read(file, structure=True)

    found = read_it()
    monkeypatch.setattr(flatten, "entries", None)
    expected = read_it()
    assert columns_of(found.columns) == columns_of(expected.columns)
    assert found.calls == expected.calls or "nan" in repr(expected.calls[0])


def test_most_of_a_dump_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python is left with few entries of a dump as frameworks make them."""
    taken: list[str] = []
    add = ColumnsBuilder.add
    monkeypatch.setattr(
        ColumnsBuilder, "add", lambda self, name, entry: (taken.append(name), add(self, name, entry))[1]
    )
    dump = read(SAMPLES / "8.1.1" / "dumps" / "ms_mix_tensor" / "step0")
    assert len(taken) < len(dump.calls) / 3, taken


def test_mutated_texts_are_scanned_as_python_reads_them():
    """A sample; `make verify` has more cases, with sanitizers."""
    assert run(300) > 100
