"""Feed mutated dump.json texts to the scanner of `store/_entries.c`, and hold what it takes to Python's reading.

    python tests/support/fuzz_entries.py [--cases 20000] [--seed 0]

`make verify` runs it on extensions that have sanitizers built in (`sanitized.py`). A case is made of its number alone,
so that it can be repeated: `--seed N --cases 1`. Whatever the scanner takes of a text must be JSON, and have the rows
that Python makes of it; an entry that it does not take must leave nothing.
"""

import argparse
import json
import random
import sys
from dataclasses import fields

from msprobe.base.errors import DumpError
from msprobe.store import flatten
from msprobe.store.flatten import ColumnsBuilder
from msprobe.store.record import Columns

PIECES = [
    b'"type": "mindspore.Tensor"', b'"dtype": "Float32"', b'"shape": [2, 3]', b'"Max": 1.5', b'"Min": -1e-7',
    b'"Mean": 9007199254740993.0', b'"Norm": 1.7976931348623157e308', b'"md5": "00"', b'"data_name": "x.npy"',
    b'"value": null', b'"from": "leaf"', b'"gradient": "accumulated"', b'"tensor_stat_index": 1', b'"input_args": []',
    b'"input_kwargs": {}', b'"input": null', b'"parameters": {"w": null}', b'"output": [null]', b'"missing": ["a"]',
    b"null", b"true", b"false", b"NaN", b"Infinity", b"-0.0", b"-0", b"01", b"1.", b".5", b"1e", b"1e400", b"1e-400",
    b"0.1", b"123456789012345678901234567890", b"2.2250738585072011e-308", b"9223372036854775808", b"-1", b"{}", b"[]",
    b"[[[[[]]]]]", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b'\\"', b"\\u0041", b"\\ud800", b"\x00", b"\x1f",
    b"\xc3\xa9", b" ", b"\n", b"\t", b"\r", b'"F.0.forward": {}, ', b'"x.debug": {}, ', b'"x.parameters_grad": {}, ',
    b"[" * 40, b'{"a":' * 40, b"0" * 70, b'"' + b"k" * 600 + b'"', b", ".join([b"7"] * 40), b"1" * 19 + b".5",
]  # fmt: skip


def tensor(draw):
    numbers = {key: draw.gauss(0, 10.0 ** draw.randint(-300, 300)) for key in ("Max", "Min", "Mean", "Norm")}
    shape = [draw.randint(0, 4) for _ in range(draw.randint(0, 3))]
    more = {"md5": "0a", "data_name": "x.npy", "from": "call F.0.forward.output.0", "gradient": "accumulated"}
    chosen = {key: value for key, value in more.items() if draw.random() < 0.2}
    return {"type": "mindspore.Tensor", "dtype": draw.choice(["Float32", "Int64"]), "shape": shape, **numbers, **chosen}


def value(draw):
    return {"type": "float", "value": draw.choice([1.5, -3, True, None, "text", [1, [2.5]]])}


def tree(draw, depth=0):
    kind = draw.randrange(6) if depth < 3 else draw.randrange(3)
    if kind == 4:
        return [tree(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    if kind == 5:
        return {draw.choice(["a", "b", "0", "type_"]): tree(draw, depth + 1) for _ in range(draw.randint(0, 3))}
    return None if kind == 0 else value(draw) if kind == 1 else tensor(draw)


def text_of(draw):
    """Return the bytes of an object with entries as collectors write them, mutated."""
    parts = ("input_args", "input_kwargs", "input", "parameters", "output")
    entries = {
        f"Functional.f.{n}.forward": {part: tree(draw) for part in parts if draw.random() < 0.5}
        for n in range(draw.randint(1, 5))
    }
    text = bytearray(json.dumps({"first": {}, **entries}, indent=draw.choice([None, 1])).encode())
    first = text.index(b"{}") + 2
    for _ in range(draw.choice([0, 1, 1, 2, 5, 20])):
        at = draw.randrange(first, len(text) + 1)
        match draw.randrange(6):
            case 0:
                text[at:at] = draw.choice(PIECES)
            case 1:
                text[at : at + draw.randint(1, 12)] = draw.choice(PIECES)
            case 2:
                del text[at : at + draw.randint(1, 20)]
            case 3 if at < len(text):
                text[at] = draw.randrange(256)
            case 4:
                begin = draw.randrange(len(text))
                text[at:at] = text[begin : begin + draw.randint(1, 200)]
            case 5 if draw.random() < 0.2:
                del text[at:]
    return bytes(text)


def columns_of(columns):
    """Return columns as they are compared: places in tables are looked up, and a NaN equals a NaN."""
    found = {each.name: getattr(columns, each.name) for each in fields(Columns) if each.init}
    found["numbers"] = columns.numbers.tolist()
    found["look"] = [columns.looks[look] for look in columns.look]
    found["path"] = [columns.paths[path] for path in columns.path]
    del found["looks"], found["paths"]
    return {name: repr(each) for name, each in found.items()}


def check(text):
    """AssertionError unless what the scanner takes of a text is what Python reads; returns how many entries it took."""
    decoded = text.decode("utf-8", "surrogateescape")
    builder = ColumnsBuilder()
    builder.add("first", {})
    begin = decoded.index("{}") + 2
    end = builder.scan(decoded, begin)
    taken = len(builder.names) - 1
    assert begin <= end <= len(decoded)
    assert (end == begin) == (taken == 0)
    by_python = ColumnsBuilder()
    for name, entry in json.loads(decoded[:end] + "}", object_pairs_hook=_Pairs).pairs:
        by_python.add(name, _as_dict(entry))
    assert columns_of(builder.columns()) == columns_of(by_python.columns())
    return taken


class _Pairs:
    """An object of JSON: its members, also several with one key."""

    def __init__(self, pairs):
        self.pairs = pairs


def _as_dict(value):
    if isinstance(value, _Pairs):
        return {key: _as_dict(each) for key, each in value.pairs}
    return [_as_dict(each) for each in value] if isinstance(value, list) else value


def run(cases, seed=0):
    """Check so many cases; returns how many entries were scanned. The number of a case that fails is printed."""
    taken = 0
    for number in range(seed, seed + cases):
        text = text_of(random.Random(number))
        try:
            taken += check(text)
        except (AssertionError, ValueError, DumpError, RecursionError):
            print(f"case {number}: {text!r}", file=sys.stderr, flush=True)
            raise
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    args = parser.parse_args()
    if flatten.entries is None:
        sys.exit("the extension _entries is not built")
    print(f"{args.cases} cases, {run(args.cases, args.seed)} entries scanned and compared")


if __name__ == "__main__":
    main()
