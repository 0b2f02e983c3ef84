"""`store/record.py` and `store/flatten.py`: a dump as columns says what its records say."""

import dataclasses
import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.store.flatten import ColumnsBuilder
from msprobe.store.reader import read
from msprobe.store.record import GRADIENTS, KINDS, PARTS, Call, Calls, Dump, Record, Statistics, columns_of

# Each strategy gives a node of an entry together with what it means: (path below it, fields of the record) in row
# order. The meaning is made with the node, not read from it.
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
names = words.filter(lambda name: name not in ("type", "missing", "is_recompute"))
numbers = st.one_of(st.floats(), st.integers(-(1 << 63), (1 << 64) - 1), st.booleans(), st.none())
no_numbers = st.one_of(st.just("1.0"), st.just([1.0]), st.just(1 << 64), st.just({"a": 1}))
files = st.sampled_from(["x.npy", "a.b.output.0.npy", "y.pt", ".npy", "z.bin", "plain"])


def record_of(kind, kind_of_value, **more):
    return {"kind": kind, "type": kind_of_value, **more}


@st.composite
def tensors(draw):
    node = {"type": draw(st.sampled_from(["mindspore.Tensor", "torch.Tensor", "numpy.ndarray"]))}
    fields = record_of("tensor", node["type"])
    node["dtype"] = fields["dtype"] = draw(st.sampled_from(["Float32", "BFloat16", "Bool", ""]))
    node["shape"] = draw(st.lists(st.integers(0, 1 << 40), max_size=4))
    # What no array can have is no shape: sizes are signed numbers of 64 bits.
    fields["shape"] = tuple(node["shape"]) if math.prod(node["shape"]) < 2**63 else None
    four = draw(st.one_of(st.lists(st.floats(), min_size=4, max_size=4), st.lists(numbers, min_size=4, max_size=4)))
    node |= zip(("Max", "Min", "Mean", "Norm"), four, strict=True)
    fields["statistics"] = Statistics(*four)
    if not all(type(number) is float for number in four) and draw(st.booleans()):
        node["true_count"] = 3
        fields["statistics"] = Statistics(*four, true_count=3)
    for key, field, values in (
        ("md5", "digest", st.sampled_from(["0a1b2c3d", "ffffffff"])),
        ("data_name", "file", files),
        ("from", "source", st.sampled_from(["leaf", "parameter fc.weight"])),
        ("gradient", "gradient", st.sampled_from(["own", "accumulated", "unavailable"])),
    ):
        if draw(st.booleans()):
            node[key] = fields[field] = draw(values)
    return node, [((), fields)]


@st.composite
def spoiled_tensors(draw):
    """Tensors with something of a wrong type, which counts as absent, or as damaged."""
    node, ((path, reported),) = draw(tensors())
    statistics = reported["statistics"]
    what = draw(st.sampled_from(["dtype", "shape", "Max", "all", "words", "placeholder", "neither"]))
    if what == "dtype":
        node["dtype"], reported["dtype"] = draw(st.sampled_from([None, 5, ["Float32"]])), ""
    elif what == "shape":
        node["shape"] = draw(st.sampled_from([None, 2, [True], [2.0], [-1], [[2]], "2", {"0": 2}]))
        reported["shape"] = None
    elif what == "Max":
        node["Max"] = draw(no_numbers)
        reported["statistics"] = dataclasses.replace(statistics, max=None, is_damaged=node["Max"] is not None)
    elif what == "all":
        for key in ("Max", "Min", "Mean", "Norm"):
            del node[key]
        reported["statistics"] = None
    elif what == "words":
        node |= {"md5": 5, "data_name": ["x.npy"], "from": None, "gradient": "mine"}
        reported |= {"digest": "", "file": "['x.npy']", "source": "", "gradient": "own"}
    elif what == "placeholder":
        node["tensor_stat_index"] = 5
        reported["statistics"] = None
    else:
        del node["shape"]
        reported["shape"] = None
    return node, [(path, reported)]


@st.composite
def values(draw):
    kind = draw(words)
    value = draw(st.one_of(st.integers(), st.floats(), words, st.none(), st.lists(st.integers(), max_size=2)))
    node = {"type": kind, "value": value, **draw(st.sampled_from([{}, {"shape": [1]}, {"from": "leaf"}]))}
    fields = record_of("value", kind, value=value)
    if draw(st.booleans()):
        node["data_name"] = fields["file"] = draw(files)
    return node, [((), fields)]


bare = st.one_of(
    st.none().map(lambda _: (None, [((), record_of("null", ""))])),
    st.one_of(st.integers(), st.booleans(), st.floats(), words).map(
        lambda value: (value, [((), record_of("value", type(value).__name__, value=value))])
    ),
)


def in_list(children):
    reported = [((str(at), *path), fields) for at, (_, rows) in enumerate(children) for path, fields in rows]
    return [node for node, _ in children], reported


def in_object(children):
    reported = [((key, *path), fields) for key, (_, rows) in children.items() for path, fields in rows]
    return {key: node for key, (node, _) in children.items()}, reported


nodes = st.recursive(
    st.one_of(tensors(), spoiled_tensors(), values(), bare),
    lambda inner: st.lists(inner, max_size=3).map(in_list) | st.dictionaries(names, inner, max_size=3).map(in_object),
    max_leaves=8,
)
PLACES = [("input_args", "input"), ("input_kwargs", "input"), ("input", "input"), ("parameters", "parameters"),
          ("output", "output")]  # fmt: skip


def expected(stem, part, reported):
    """The records of one tree; `stem` is the beginning of their names."""
    for path, fields in reported:
        file = fields.get("file", "")
        name = file.rsplit(".", 1)[0] if file.endswith((".npy", ".pt")) else ".".join([stem, *path])
        yield Record(name=name or ".".join([stem, *path]), part=part, path=path, **fields)


@st.composite
def calls(draw, at):
    """The name of a call, its entry, and the call that they mean."""
    kind = draw(st.sampled_from(["forward", "gradients", "debug"]))
    records = []
    if kind == "debug":
        name = f"x.{at}.debug"
        entry, reported = draw(nodes)
        records += expected(name, "debug", reported)
    elif kind == "gradients":
        name, entry = f"Cell.a{at}.A.parameters_grad", {}
        for key, (node, reported) in draw(st.dictionaries(names, st.one_of(tensors(), bare), max_size=3)).items():
            entry[key] = [node]
            records += expected(name, "parameters_grad", [((key, *path), fields) for path, fields in reported])
    else:
        name, trees = f"Mint.add.{at}.forward", {}
        for key, part in PLACES:
            if draw(st.booleans()) and (node := draw(nodes))[0] is not None:
                trees[key] = node[0]
                records += expected(f"{name}.{part}", part, node[1])
        entry = dict(draw(st.permutations(list(trees.items()))))
    missing, again = (), False
    if type(entry) is dict and type(entry.get("type")) is not str and kind != "debug":
        if draw(st.booleans()):
            entry["missing"], missing = ["output.1", 5], ("output.1",)
            if kind == "gradients":
                entry["missing"] = ["output.1"]
        if draw(st.booleans()):
            entry["is_recompute"] = again = True
    return name, entry, Call(name, tuple(records), None, (), missing, again)


some_calls = st.integers(0, 4).flatmap(lambda count: st.tuples(*[calls(at) for at in range(count)]))


def leaves_of(pairs):
    builder = ColumnsBuilder()
    for name, entry in pairs:
        builder.add(name, entry)
    return builder


@given(some_calls)
def test_every_record_is_what_its_entry_means(write, made):
    dump = read(write({name: entry for name, entry, _ in made}))
    assert [call.name for call in dump.calls] == [name for name, _, _ in made]
    for found, (_, _, wanted) in zip(dump.calls, made, strict=True):
        # By their texts: a NaN is no other NaN's equal, and 0.0 that of -0.0.
        assert list(map(repr, found.records)) == list(map(repr, wanted.records))
        assert (found.missing, found.is_recompute) == (wanted.missing, wanted.is_recompute)


@given(some_calls)
def test_columns_of_calls_are_the_columns_of_their_entries(made):
    columns = columns_of([wanted for _, _, wanted in made])
    from_entries = leaves_of([(name, entry) for name, entry, _ in made]).columns()
    for field in ("names", "starts", "part", "kind", "gradient", "odd", "values", "digest", "file", "source", "named"):
        assert repr(getattr(columns, field)) == repr(getattr(from_entries, field)), field
    for field in ("max", "min", "mean", "norm"):
        assert getattr(columns, field).tobytes() == getattr(from_entries, field).tobytes(), field
    for number, whole in (("path", "paths"), ("look", "looks")):
        for a, b in zip(getattr(columns, number), getattr(from_entries, number), strict=True):
            assert getattr(columns, whole)[a] == getattr(from_entries, whole)[b]
    for call, (_, _, wanted) in enumerate(made):
        assert repr(columns.records(call)) == repr(wanted.records)


def tensor(top, **more):
    return {"type": "T", "dtype": "Float32", "shape": [2], "Max": top, "Min": 0.0, "Mean": 0.5, "Norm": 1.0, **more}


def test_columns_in_detail():
    entry = {
        "input_args": [tensor(1.0, md5="0a"), {"type": "int", "value": 7}, None],
        "output": [tensor(True, Min=False, true_count=2), tensor(math.nan, gradient="accumulated"), tensor(2.0)],
    }
    columns = leaves_of([("F.0.backward", entry), ("F.1.forward", {}), ("x.0.debug", tensor(3.0))]).columns()
    assert columns.names == ["F.0.backward", "F.1.forward", "x.0.debug"]
    assert columns.starts == array("q", [0, 6, 6, 7])
    assert [PARTS[part] for part in columns.part] == ["input"] * 3 + ["output"] * 3 + ["debug"]
    assert [KINDS[kind] for kind in columns.kind] == ["tensor", "value", "null", "tensor", "tensor", "tensor", "tensor"]
    assert [GRADIENTS[g] for g in columns.gradient] == ["own"] * 4 + ["accumulated"] + ["own"] * 2
    assert [columns.paths[path] for path in columns.path] == [("0",), ("1",), ("2",), ("0",), ("1",), ("2",), ()]
    assert columns.paths == [*dict.fromkeys(columns.paths)], "each path stands there once"
    assert [columns.looks[look] for look in columns.look] == [
        ("T", "Float32", (2,)),
        ("int", "", None),
        ("", "", None),
        *[("T", "Float32", (2,))] * 4,
    ]
    assert repr(columns.max.tolist()) == repr(columns.column("max").tolist()) == "[1.0, nan, nan, nan, nan, 2.0, 3.0]"
    assert repr(columns.min.tolist()) == "[0.0, nan, nan, nan, 0.0, 0.0, 0.0]"
    assert columns.numbers.shape == (7, 4)
    assert columns.numbers[0].tolist() == [1.0, 0.0, 0.5, 1.0]
    assert columns.odd == {3: Statistics(True, False, 0.5, 1.0, 2)}, "a NaN is a plain float"
    assert columns.values == {1: 7}
    assert (columns.digest, columns.file) == (["0a"] + [""] * 6, [""] * 7)
    assert [columns.row_name(row, 0) for row in (0, 5)] == ["F.0.backward.input.0", "F.0.backward.output.2"]
    assert columns.row_name(6, 2) == "x.0.debug"
    assert len(columns) == 7


def test_four_floats_are_plain_whatever_the_dtype_says():
    entry = {"output": [tensor(1.0, dtype=5), tensor(1.0, shape="2"), tensor(1.0, true_count=2)]}
    columns = leaves_of([("F.0.forward", entry)]).columns()
    assert columns.odd == {}
    assert columns.max.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("more", "field", "reported"),
    [
        *[({"shape": shape}, "shape", None) for shape in ([True], [2.0], [2, -1], [[2]], "2", {"0": 2}, 2, None)],
        ({"shape": []}, "shape", ()),
        *[({"dtype": dtype}, "dtype", "") for dtype in (None, 5, ["Float32"])],
        ({"Max": None}, "statistics", Statistics(None, 0.0, 0.5, 1.0)),
        ({"Max": "1.0"}, "statistics", Statistics(None, 0.0, 0.5, 1.0, is_damaged=True)),
        ({"Max": 1 << 64}, "statistics", Statistics(None, 0.0, 0.5, 1.0, is_damaged=True)),
        ({"Max": 1}, "statistics", Statistics(1, 0.0, 0.5, 1.0)),
        ({"Max": True, "true_count": 2}, "statistics", Statistics(True, 0.0, 0.5, 1.0, 2)),
        ({"tensor_stat_index": 3}, "statistics", None),
        ({"value": 3}, "kind", "value"),
        ({"value": None}, "statistics", None),
        ({"md5": 5}, "digest", ""),
        ({"data_name": None}, "file", ""),
        ({"data_name": ["x.npy"]}, "file", "['x.npy']"),
        ({"data_name": ""}, "file", "''"),
        ({"data_name": "x.bin"}, "name", "F.0.forward.output.0"),
        ({"from": 5}, "source", ""),
        ({"gradient": "mine"}, "gradient", "own"),
        ({"gradient": ["own"]}, "gradient", "own"),
        ({"unheard of": 5, "requires_grad": True}, "shape", (2,)),
    ],
)
def test_what_one_key_does_to_a_tensor_like_most(more, field, reported):
    """Each key by itself; the other fields stay, but for those of a leaf that becomes a value."""
    plain, changed = (
        leaves_of([("F.0.forward", {"output": [node]})]).columns().records(0)[0]
        for node in (tensor(1.0), tensor(1.0, **more))
    )
    assert repr(getattr(changed, field)) == repr(reported)
    if "value" not in more and field != "file":
        assert repr(dataclasses.replace(changed, **{field: None})) == repr(
            dataclasses.replace(plain, **{field: None, "file": changed.file})
        )


@pytest.mark.parametrize(
    "statistics",
    [
        None,
        Statistics(1.0, 1.0, 1.0, 1.0),
        Statistics(1.0, 1.0, 1.0, 1.0, 3),
        Statistics(1, 1.0, 1.0, 1.0),
        Statistics(None, None, None, None),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_records_made_by_hand_stay_as_they_are(kind, statistics):
    record = Record("a.input.0", "input", ("0",), kind, "T", "D", (1,), statistics, 5, "0a", "", "own", "leaf")
    assert repr(columns_of([Call("a", (record,))]).records(0)) == repr((record,))


def test_a_name_that_a_reader_made_up_stays():
    call = Call("a", (Record("b", "input", ("0",), "tensor", "T", shape=(1,), value=3, statistics=None),))
    columns = columns_of([call])
    assert columns.records(0) == call.records
    assert (columns.named, columns.odd) == ({0: "b"}, {0: None})


def dump_of(calls):
    return Dump("where", "folder", "statistics", "L1", "mindspore", calls)


def test_columns_of_plain_calls_are_made_once():
    dump = dump_of((Call("a", (Record("a.input.0", "input", ("0",), "null", ""),)),))
    assert dump.columns is dump.columns
    assert dump.columns.records(0) == dump.calls[0].records
    fewer = dataclasses.replace(dump, calls=())
    assert (len(fewer.columns), len(dump.columns)) == (0, 1)


@pytest.fixture
def read_dump(write):
    data = {f"F.{at}.forward": {"output": [tensor(float(at))]} for at in range(5)}
    data["F.3.forward"] |= {"missing": ["output.1"], "is_recompute": True}
    construct = {"F.1.forward": "Cell.a.A.forward.0"}
    return read(write(data, construct=construct, stack={"0": [["F.2.forward"], ["frame"]]}))


def test_calls_are_a_sequence(read_dump):
    calls = read_dump.calls
    whole = tuple(calls)
    assert type(calls) is Calls
    assert calls == whole
    assert whole == calls
    assert calls == list(whole)
    assert calls != whole[1:]
    assert calls != (*whole[:4], whole[0])
    assert calls != "F.0.forward"
    assert (calls[1], calls[-1], calls[1:3], calls[::-2]) == (whole[1], whole[-1], whole[1:3], whole[::-2])
    assert (list(reversed(calls)), whole[2] in calls, calls.index(whole[2])) == (list(reversed(whole)), True, 2)
    with pytest.raises(IndexError):
        calls[5]
    assert repr(calls) == "<5 calls, 5 records>"


def test_what_a_call_is_is_told_without_its_records(read_dump):
    calls = read_dump.calls
    for at, call in enumerate(calls):
        reported = calls.parent(at), calls.stack(at), calls.missing(at), calls.is_recompute(at)
        assert reported == (call.parent, call.stack, call.missing, call.is_recompute)
    assert [calls.parent(at) for at in range(3)] == [None, "Cell.a.A.forward.0", None]
    assert calls.stack(2) == ("frame",)
    assert (calls.missing(3), calls.is_recompute(3)) == (("output.1",), True)


def test_columns_of_a_dump_that_was_read_are_those_behind_its_calls(read_dump):
    assert read_dump.columns is read_dump.calls.columns
    other = dataclasses.replace(read_dump, unfinished="because")
    assert other.columns is read_dump.columns
    assert other.calls == read_dump.calls
    cut = dataclasses.replace(read_dump, calls=read_dump.calls[:2])
    assert cut.columns.names == ["F.0.forward", "F.1.forward"]


def test_what_many_records_have_alike_is_kept_once(write):
    data = {f"F.{at}.forward": {"output": [tensor(1.0, **{"from": "call G.0.forward.output.0"})]} for at in range(3)}
    construct = dict.fromkeys(data, "Cell.a.A.forward.0") | {"Cell.a.A.forward.0": None}
    dump = read(write(data, construct=construct, stack={"0": [list(data), ["frame"]]}))
    columns = dump.columns
    assert len(columns.paths) <= 2
    assert len(columns.looks) == 1
    assert len({id(source) for source in columns.source}) == 1
    assert dump.construct == construct
    assert {id(name) for name in columns.names} < {id(name) for name in dump.construct}
    assert {id(parent) for parent in dump.construct.values() if parent} < {id(name) for name in dump.construct}
