"""Checkpoints without any framework: the formats byte by byte, the numbers worked out by hand, and broken files."""

import json
import math
import struct

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.cli import main
from msprobe.compare.checkpoint.ckpt import read_ckpt
from msprobe.compare.checkpoint.formats import read_safetensors
from msprobe.compare.checkpoint.sources import read_side

CODES = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "bool": "BOOL"}


def varint(number):
    made = b""
    while number > 127:
        made += bytes((number & 127 | 128,))
        number >>= 7
    return made + bytes((number,))


def field(number, content):
    """A field of protobuf: bytes, or an integer."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def value(name, dims, dtype, content, *, packed=False):
    axes = field(1, b"".join(map(varint, dims))) if packed else b"".join(field(1, n) for n in dims)
    return field(1, field(1, name.encode()) + field(2, axes + field(2, dtype.encode()) + field(3, content)))


def safetensors(path, arrays, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, array in arrays.items():
        held = np.asarray(array).tobytes()
        offsets = [len(data), len(data) + len(held)]
        header[name] = {"dtype": CODES[np.asarray(array).dtype.name], "shape": np.shape(array), "data_offsets": offsets}
        data += held
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture
def compare(tmp_path, capsys):
    """Compare two sets of arrays; gives the exit code, the entries, and what was printed."""

    def run(target, golden, *args):
        paths = [
            side if hasattr(side, "exists") else safetensors(tmp_path / f"{name}.safetensors", side)
            for name, side in (("target", target), ("golden", golden))
        ]
        output = tmp_path / "answer.json"
        output.unlink(missing_ok=True)
        code = main(["config_check", "-c", *map(str, paths), "-o", str(output), *map(str, args)])
        captured = capsys.readouterr()
        text = output.read_text() if output.exists() else "{}"
        assert "NaN" not in text.replace('"NaN or infinity', "")
        assert "Infinity" not in text
        return code, json.loads(text), captured.out + captured.err

    return run


def test_a_file_of_mindspore_is_read(request):
    found = read_ckpt(request.config.rootpath / "tests" / "samples" / "checkpoint" / "net.ckpt")
    assert {name: (one.dtype, one.shape) for name, one in found.parameters.items()} == {
        "0.weight": ("Float32", (2, 3)),
        "0.bias": ("Float32", (2,)),
        "1.gamma": ("Float32", (2,)),
        "1.beta": ("Float32", (2,)),
        "epoch_num": ("Int64", ()),
        "half": ("BFloat16", (2,)),
    }
    arrays = {name: one.load().tolist() for name, one in found.parameters.items()}
    assert arrays["0.weight"] == [[0, 0.25, 0.5], [0.75, 1, 1.25]]
    assert arrays["0.bias"] == [0.5, -1]
    assert (arrays["1.gamma"], arrays["1.beta"], arrays["epoch_num"]) == ([1, 1], [0, 0], 3)
    assert arrays["half"] == [1.5, -2]


def test_the_grammar_of_ckpt_byte_by_byte(tmp_path):
    path = tmp_path / "a.ckpt"
    old_scalar = value("old", [0], "Float32", struct.pack("<f", 2.5))
    packed = value("packed", [1, 200], "UInt8", bytes(range(200)), packed=True)
    pieces = [value("cut", [3], "Int16", struct.pack("<h", n)) for n in (1, -2, 300)]
    again = value("again", [1], "Int8", b"\1"), value("again", [1], "Int8", b"\2")
    unknown = field(1, field(9, 7) + field(1, b"more") + field(2, field(1, 1) + field(2, b"Bool") + field(3, b"\1")))
    path.write_bytes(b"".join([old_scalar, packed, *pieces, again[0], old_scalar, again[1], unknown]))
    found = read_ckpt(path).parameters
    assert found["old"].load() == np.float32(2.5)
    assert found["packed"].load().tolist() == [list(range(200))]
    assert found["cut"].load().tolist() == [1, -2, 300]
    assert found["again"].load().tolist() == [2], "the last of two that stand apart"
    assert found["more"].load().tolist() == [True]


def test_a_ckpt_that_was_cut_anywhere_is_refused_or_still_whole(tmp_path):
    whole = value("a", [2], "Float32", b"12345678") + value("b", [2], "Float32", b"12345678")
    second = len(value("a", [2], "Float32", b"12345678"))
    for length in range(1, len(whole)):
        (tmp_path / "a.ckpt").write_bytes(whole[:length])
        if length == second:
            assert list(read_ckpt(tmp_path / "a.ckpt").parameters) == ["a"]
            continue
        with pytest.raises(DumpError, match="is not a complete checkpoint of MindSpore"):
            read_ckpt(tmp_path / "a.ckpt")


def test_a_ckpt_of_no_bytes_is_refused_and_not_a_net_without_parameters(tmp_path, capsys):
    (tmp_path / "a.ckpt").write_bytes(b"")
    (tmp_path / "b.ckpt").write_bytes(value("a", [2], "Float32", b"12345678"))
    assert main(["config_check", "--compare", str(tmp_path / "b.ckpt"), str(tmp_path / "a.ckpt")]) == 2
    assert "a.ckpt: is empty, so it is unfinished: copy it again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (value("a", [3], "Float32", b"1234"), "contains 4 bytes, which does not match its shape"),
        (value("a", [1 << 62], "Float32", b"1234"), "contains 4 bytes, which does not match its shape"),
        (value("a", [0, 1 << 62], "Float32", b""), "numpy cannot create an array"),
        (value("a", [4], "Int4", b"12"), "which numpy does not support"),
        (field(1, field(1, b"a") + field(3, field(1, b""))), "is a MapParameter"),
    ],
)
def test_one_broken_parameter_of_a_ckpt_is_told_when_it_is_read(content, message, tmp_path):
    (tmp_path / "a.ckpt").write_bytes(content)
    with pytest.raises(DumpError, match=message):
        read_ckpt(tmp_path / "a.ckpt").parameters["a"].load()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80" * 20,
        field(1, field(2, b"")),
        field(2, 3),
        field(1, field(1, b"\xff\xfe") + field(2, b"")),
        field(1, field(1, b"a") + field(2, field(1, 1 << 63))),
        field(1, field(1, b"a" * 70000)),
        b"\x0b",
    ],
)
def test_what_is_no_ckpt_is_refused(content, tmp_path):
    (tmp_path / "a.ckpt").write_bytes(content)
    with pytest.raises(DumpError, match="is not a complete checkpoint of MindSpore"):
        read_ckpt(tmp_path / "a.ckpt")


def test_safetensors_say_who_wrote_them(tmp_path):
    arrays = {"a": np.float32([[1, 2]]), "b": np.array(True), "c": np.float64([])}
    for code, framework in (("pt", "pytorch"), ("ms", "mindspore"), ("np", "")):
        found = read_safetensors(safetensors(tmp_path / "a.safetensors", arrays, {"format": code}))
        assert found.framework == framework
        assert {name: one.load().tolist() for name, one in found.parameters.items()} == {
            "a": [[1, 2]],
            "b": True,
            "c": [],
        }
    bits = (np.float32([1.5, -2]).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    text = b'{"h":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}   '
    (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bits)
    assert read_safetensors(tmp_path / "b.safetensors").parameters["h"].load().tolist() == [1.5, -2]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"", "is not a complete safetensors file"),
        (b"[1, 2]", "not a JSON object"),
        (b"{broken", "not valid JSON"),
        (b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}}', "size of a differs from that in the header"),
        (b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}}', "size of a differs from that in the header"),
        (b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}', "entry of a in the header is invalid"),
        (b'{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', "entry of a in the header is invalid"),
        (b'{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}', "entry of a in the header is invalid"),
        (b'{"a":{"dtype":"F32","data_offsets":[0,8]}}', "entry of a in the header is invalid"),
        (b'{"a":7}', "entry of a in the header is invalid"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_safetensors_is_refused(header, message, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(DumpError, match=message):
        read_safetensors(path)
    path.write_bytes(struct.pack("<Q", 1 << 60) + header)
    with pytest.raises(DumpError, match="is not a complete safetensors file"):
        read_safetensors(path)


def test_the_numbers_of_the_four_keys(compare):
    """By hand: |(0, 0.2)| = 0.2; (1 + 4.4) / (sqrt 5 sqrt 5.84) = 0.999315."""
    target = {"w": np.float64([1, 2]), "zero": np.zeros(2), "one": np.zeros(2), "shape": np.ones((2, 3))}
    golden = {"w": np.float64([1, 2.2]), "zero": np.zeros(2), "one": np.ones(2), "shape": np.ones((2, 2))}
    code, entries, _ = compare(target, golden)
    assert code == 1
    assert entries["w"]["l2"] == pytest.approx(0.2)
    assert entries["w"]["cos"] == pytest.approx(5.4 / math.sqrt(5 * 5.84))
    assert round(entries["w"]["cos"], 6) == 0.999315
    assert (entries["w"]["numel"], entries["w"]["shape"]) == (2, [2])
    assert (entries["zero"]["l2"], entries["zero"]["cos"], entries["zero"]["verdict"]) == (0, 1, "pass")
    assert entries["one"]["l2"] == pytest.approx(math.sqrt(2))
    assert entries["one"]["cos"] is None
    assert entries["shape"]["l2"] is entries["shape"]["cos"] is None
    assert (entries["shape"]["numel"], entries["shape"]["shape"]) == ([6, 4], [[2, 3], [2, 2]])
    assert entries["shape"]["verdict"] == "error"
    assert "Shapes differ: [2, 3], golden [2, 2]" in entries["shape"]["reason"]


# target, golden, verdict by msprobe's limits (a cosine of at least 0.99, an l2 below 1), verdict by the dtype's
ACCEPTED = {
    "equal": ([1, 2], [1, 2], "pass", "pass"),
    "trained": ([1, 2], [1, 2.2], "pass", "error"),  # l2 0.2, cosine 0.9993
    "far": ([30, 40], [30, 41], "error", "error"),  # l2 1, cosine 0.9999
    "nearly far": ([30, 40], [30, 40.99], "pass", "error"),
    "turned": ([0.1, 0], [0.1, 0.02], "error", "error"),  # l2 0.02, cosine 0.98
    "nearly turned": ([0.1, 0], [0.1, 0.014], "pass", "error"),  # cosine 0.9903
    "against": ([0.1, 0.1], [-0.1, -0.1], "error", "error"),
    "zeros": ([0, 0], [0, 0], "pass", "pass"),
    "zeros here": ([0, 0], [1e-3, 0], "error", "error"),
    "zeros there": ([1e-3, 0], [0, 0], "error", "error"),
    "one": ([2.5], [2], "pass", "error"),
    "NaN on both": ([1, np.nan], [1, np.nan], "pass", "pass"),
    "NaN on one": ([1, np.nan], [1, 1], "error", "error"),
    "infinite": ([1e308] * 4, [-1e308] * 4, "error", "error"),
    "shape": ([1, 2], [[1, 2]], "error", "error"),
    "empty": ([], [], "pass", "pass"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_limits_of_msprobe_can_be_chosen_beside_those_of_the_dtype(name, compare):
    target, golden, by_msprobe, by_dtype = ACCEPTED[name]
    sides = {"w": np.float64(target)}, {"w": np.float64(golden)}
    code, entries, text = compare(*sides, "--standard", "msprobe")
    assert (entries["w"]["verdict"], code) == (by_msprobe, int(by_msprobe != "pass"))
    assert entries["w"].get("dtype_verdict", by_dtype) == by_dtype
    assert "judged by the limits of msprobe, a cosine of at least 0.99 and an l2 below 1" in text.splitlines()[-1]
    for options in ((), ("--standard", "dtype")):
        code, entries, text = compare(*sides, *options)
        assert (entries["w"]["verdict"], code) == (by_dtype, int(by_dtype != "pass"))
        assert "dtype_verdict" not in entries["w"]
        assert "judged by" not in text


def test_the_limits_of_msprobe_say_which_is_exceeded_and_pass_nothing_unjudged(compare):
    target = {"both": np.float32([3, 0]), "kind": np.float32([1, 2]), "only": np.float32([1])}
    golden = {"both": np.float32([0, 3]), "kind": np.int64([1, 2])}
    code, entries, text = compare(target, golden, "--standard", "msprobe")
    assert code == 1
    assert "the cosine is below 0.99; the l2 is not below 1" in entries["both"]["reason"].lower()
    assert (entries["kind"]["verdict"], entries["only"]["verdict"]) == ("error", "unjudged")
    assert "2 parameters on both sides: 0 pass, 0 warning, 2 error" in text


def test_limits_for_checkpoints_are_refused_for_packs(tmp_path, capsys):
    assert main(["config_check", "-c", "a.zip", "b.zip", "--standard", "msprobe"]) == 2
    assert "--standard applies only to two checkpoints" in capsys.readouterr().err


def test_nan_and_infinity_are_judged_and_are_no_numbers_of_the_answer(compare):
    target = {"one": np.float32([1, np.nan]), "both": np.float32([1, np.nan]), "far": np.float64([1e308] * 4)}
    golden = {"one": np.float32([1, 2]), "both": np.float32([1, np.nan]), "far": np.float64([-1e308] * 4)}
    code, entries, _ = compare(target, golden)
    assert code == 1
    assert (entries["one"]["l2"], entries["one"]["cos"], entries["one"]["verdict"]) == (None, None, "error")
    assert "NaN or infinity differs in 1 of 2 elements" in entries["one"]["reason"]
    assert (entries["both"]["l2"], entries["both"]["cos"], entries["both"]["verdict"]) == (0, 1, "pass")
    assert entries["far"]["l2"] is None, "4e308 is beyond float64"
    assert entries["far"]["verdict"] == "error"


def test_dtypes_of_one_family_are_held_to_the_coarser_standard_and_others_differ(compare):
    target = {"half": np.float32([1.0001, 2]), "kind": np.float32([1, 2])}
    golden = {"half": np.float16([1, 2]), "kind": np.int64([1, 2])}
    code, entries, _ = compare(target, golden)
    assert code == 1
    assert (entries["half"]["verdict"], entries["half"]["dtype"]) == ("pass", ["float32", "float16"])
    assert (entries["kind"]["verdict"], entries["kind"]["l2"]) == ("error", 0)
    assert "Dtypes differ: float32, golden int64" in entries["kind"]["reason"]


def test_the_worst_come_first_and_no_more_than_asked_for(compare):
    names = [f"w{n}" for n in range(6)]
    target = {name: np.float32([1 + n / 100]) for n, name in enumerate(names)}
    code, _, message = compare(target, dict.fromkeys(names, np.float32([1])), "--top", 2)
    lines = message.splitlines()
    assert code == 1
    assert "6 parameters on both sides: 1 pass, 0 warning, 5 error, 0 unjudged" in lines[-1]
    assert [line.split(":")[1].strip() for line in lines[1:3]] == ["w5", "w4"]
    assert lines[3] == "and 3 more that do not pass"


def test_a_side_that_only_has_more_is_no_pass(compare):
    code, entries, output = compare({"a": np.float32([1])}, {"a": np.float32([1]), "b": np.float32([1])})
    assert code == 1
    assert entries["b"]["shape"] == [None, [1]]
    assert "on the golden side only 1 (b)" in output


def test_a_rule_may_give_a_golden_to_another_target_and_none_is_lost(compare, tmp_path):
    (tmp_path / "map.yaml").write_text("a: b\n")
    code, entries, _ = compare(
        {"a": np.float32([1])}, {"a": np.float32([2]), "b": np.float32([1])}, "-dm", tmp_path / "map.yaml"
    )
    assert code == 1
    assert entries["a"]["golden"] == "b"
    assert entries["a (golden)"]["verdict"] == "unjudged"


def test_what_the_command_refuses(compare, tmp_path, capsys):
    a = safetensors(tmp_path / "a.safetensors", {"a": np.float32([1])})
    (tmp_path / "empty").mkdir()
    (tmp_path / "two").mkdir()
    for name in "xy":
        safetensors(tmp_path / "two" / f"{name}.safetensors", {"a": np.float32([1])})
    (tmp_path / "notes.txt").touch()
    (tmp_path / "map.yaml").write_text("nothing: a\n")
    for target, golden, args, message in (
        (tmp_path / "none.ckpt", a, (), "no such file or folder"),
        (tmp_path / "bench.zip", a, (), "a pack cannot be compared"),
        (tmp_path / "empty", a, (), "contains no checkpoint"),
        (tmp_path / "two", a, (), "contains several checkpoints (x.safetensors, y.safetensors)"),
        (tmp_path / "notes.txt", a, (), "is not one of .ckpt, .safetensors"),
        (a, a, ("-dm", tmp_path / "map.yaml"), "has no parameter nothing, which is in the data mapping"),
        (a, a, ("--top", "-1"), "--top: -1 is invalid"),
    ):
        code, entries, text = compare(target, golden, *args)
        assert (code, entries) == (2, {}), text
        assert message in text
    assert main(["config_check"]) == 2
    assert "give -d [FILE ...] to pack, or --compare A B" in capsys.readouterr().err
    assert main(["config_check", "-vc", "a.log", "b.log"]) == 2
    assert "logs of other trainers are not compared" in capsys.readouterr().err


def test_an_answer_that_is_there_is_never_replaced(tmp_path, capsys):
    a = safetensors(tmp_path / "a.safetensors", {"a": np.float32([1])})
    (tmp_path / "answer.json").write_text("mine")
    assert main(["config_check", "-c", str(a), str(a), "-o", str(tmp_path / "answer.json")]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "answer.json").read_text() == "mine"


def test_folders_of_ranks_are_compared_rank_by_rank(compare, tmp_path):
    for run in "ab":
        for rank in (0, 10):
            folder = tmp_path / run / f"rank_{rank}"
            folder.mkdir(parents=True)
            safetensors(folder / "net.safetensors", {"w": np.float32([rank + (run == "b" and rank)])})
    code, entries, _ = compare(tmp_path / "a", tmp_path / "b")
    assert code == 1
    assert {name: entry["verdict"] for name, entry in entries.items()} == {"rank_0/w": "pass", "rank_10/w": "error"}
    assert read_side(tmp_path / "a" / "rank_10").ranks[""].parameters["w"].load() == 10


def test_parts_with_the_map_of_mindspore_are_one_checkpoint(tmp_path):
    safetensors(tmp_path / "part0.safetensors", {"a": np.float32([1])})
    safetensors(tmp_path / "part1.safetensors", {"b": np.float32([2])})
    weights = {"a": "part0.safetensors", "b": "part1.safetensors"}
    (tmp_path / "param_name_map.json").write_text(json.dumps({"weight_map": weights, "metadata": {"total_size": 8}}))
    assert {name: one.load() for name, one in read_side(tmp_path).ranks[""].parameters.items()} == {"a": 1, "b": 2}
