"""Which parameter is which where the names do not tell: by equal values, by the layer, and never by guessing."""

import zlib

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.compare.checkpoint.formats import Checkpoint, Parameter
from msprobe.compare.checkpoint.match import match
from msprobe.mapping.user_files import DataRule


def checkpoint(framework, arrays):
    return Checkpoint(
        framework,
        framework,
        {
            name: Parameter(name, str(array.dtype), array.shape, lambda array=array: array)
            for name, array in arrays.items()
        },
    )


def weight(key, *shape):
    return np.random.default_rng(zlib.crc32(key.encode())).normal(size=shape).astype(np.float32)


def ported(blocks=3):
    """(MindSpore's name, PyTorch's name, weight) of every parameter of a net; written by hand."""
    rows = [("embedding.embedding_table", "wte.weight", weight("embedding", 11, 4))]
    for n in range(blocks):
        for ours, theirs, shape in (
            ("norm1.gamma", "ln_1.weight", (4,)),
            ("norm1.beta", "ln_1.bias", (4,)),
            ("attention.query.weight", "attn.q.weight", (4, 4)),
            ("attention.query.bias", "attn.q.bias", (4,)),
            ("dense.weight", "mlp.weight", (8, 4)),
            ("dense.bias", "mlp.bias", (8,)),
        ):
            rows.append((f"blocks.{n}.{ours}", f"h.{n}.{theirs}", weight(f"{n}{ours}", *shape)))
    return [*rows, ("final.gamma", "ln_f.weight", weight("final", 4)), ("final.beta", "ln_f.bias", weight("beta", 4))]


def matched(target, golden):
    """{(target, golden): how it was found} of the pairs, and the names of those without."""
    found = match(checkpoint("mindspore", target), checkpoint("pytorch", golden))
    pairs = {(p.target.name, p.golden.name): p.found_by for p in found.pairs if p.target and p.golden}
    return pairs, [p.name for p in found.pairs if not (p.target and p.golden)]


@pytest.fixture
def rows():
    return ported()


def sides(rows):
    return {ours: array for ours, _, array in rows}, {theirs: array for _, theirs, array in rows}


def test_equal_values_pair_what_has_another_name_altogether(rows):
    target, golden = sides(rows)
    pairs, alone = matched(target, dict(reversed(golden.items())))
    assert pairs == {(ours, theirs): "equal values" for ours, theirs, _ in rows}
    assert not alone


def test_what_differs_is_found_by_its_layer_or_by_its_layer_in_other_blocks(rows):
    target, golden = sides(rows)
    for name in ("blocks.0.norm1.gamma", "blocks.2.attention.query.weight", "blocks.2.attention.query.bias"):
        target[name] = target[name] + 1
    pairs, alone = matched(target, golden)
    assert set(pairs) == {(ours, theirs) for ours, theirs, _ in rows}
    assert not alone
    assert pairs["blocks.0.norm1.gamma", "h.0.ln_1.weight"] == "its layer"
    assert pairs["blocks.2.attention.query.weight", "h.2.attn.q.weight"] == "its layer", "as in blocks 0 and 1"


def test_a_block_that_lacks_shifts_the_numbers_and_no_pair(rows):
    """Block 1 lacks on the target side, whose last block is then golden's block 2; its query differs."""
    target, golden = {}, sides(rows)[1]
    for ours, _, array in rows:
        if ".1." not in ours:
            target[ours.replace(".2.", ".1.")] = array
    target["blocks.1.attention.query.weight"] = target["blocks.1.attention.query.weight"] + 1
    target["blocks.1.attention.query.bias"] = target["blocks.1.attention.query.bias"] + 1
    pairs, alone = matched(target, golden)
    assert {theirs for ours, theirs in pairs if ours.startswith("blocks.1.")} == {
        theirs for theirs in golden if theirs.startswith("h.2.")
    }
    assert sorted(alone) == sorted(theirs for theirs in golden if theirs.startswith("h.1."))


def test_nothing_is_paired_where_nothing_is_equal(rows):
    target, golden = sides(rows)
    pairs, alone = matched({name: array + 1 for name, array in target.items()}, golden)
    assert pairs == {}
    assert len(alone) == 2 * len(rows)


def test_values_that_stand_twice_on_a_side_tell_nothing():
    same = weight("same", 5, 5)
    target = {
        "a.weight": same,
        "b.weight": same,
        "c.gamma": np.ones(5, np.float32),
        "only.weight": weight("only", 3, 2),
    }
    golden = {"x.weight": same, "y.weight": same, "z.weight": np.ones(5, np.float32), "w.weight": weight("only", 3, 2)}
    pairs, alone = matched(target, golden)
    assert pairs == {("only.weight", "w.weight"): "equal values"}
    assert sorted(alone) == ["a.weight", "b.weight", "c.gamma", "x.weight", "y.weight", "z.weight"]


def test_the_last_one_of_its_kind_is_paired_only_where_both_sides_are_left_with_the_same_kinds():
    equal, other = weight("equal", 3, 2), weight("other", 4, 2)
    target = {"a.weight": equal, "head.weight": other}
    golden = {"x.weight": equal, "lm_head.weight": other + 1}
    assert matched(target, golden)[0]["head.weight", "lm_head.weight"] == "what is left"
    pairs, alone = matched(target, golden | {"more.bias": weight("more", 7)})
    assert list(pairs) == [("a.weight", "x.weight")]
    assert sorted(alone) == ["head.weight", "lm_head.weight", "more.bias"]


def test_a_transposed_matrix_is_known_too_and_compared_as_it_is():
    array = weight("w", 3, 2)
    target = {"a.weight": array.T, "b.table": weight("b", 7)}
    pair, _ = match(checkpoint("mindspore", target), checkpoint("pytorch", {"x.weight": array})).pairs
    assert (pair.target.name, pair.golden.name, pair.found_by) == ("a.weight", "x.weight", "equal values")
    assert not pair.of_target
    assert not pair.of_golden


def test_the_layout_of_a_layer_is_brought_together_whichever_side_is_mindspores():
    array = weight("conv", 5, 4, 3)
    ours = {"a.weight": array[:, :, None], "b.table": weight("b", 7)}
    sides = checkpoint("mindspore", ours), checkpoint("pytorch", {"x.weight": array})
    for target, golden in (sides, sides[::-1]):
        pair = match(target, golden).pairs[0]
        assert pair.found_by == "equal values"
        laid = pair.of_target(pair.target.load()), pair.of_golden(pair.golden.load())
        assert np.array_equal(*laid)
        assert laid[0].shape == (5, 4, 3)


def test_names_come_before_values(rows):
    """Two layers whose weights were exchanged are two layers that differ."""
    one, other = weight("one", 3, 3), weight("other", 3, 3)
    pairs, _ = matched({"a.weight": one, "b.weight": other}, {"a.weight": other, "b.weight": one})
    assert pairs == {("a.weight", "a.weight"): "", ("b.weight", "b.weight"): ""}


def test_what_cannot_be_read_is_left_alone_and_hides_nothing_else():
    def broken():
        raise DumpError("broken")

    equal = weight("equal", 3, 2)
    target = checkpoint("mindspore", {"a.weight": equal, "b.weight": equal})
    parameters = dict(target.parameters)
    parameters["b.weight"] = Parameter("b.weight", "float32", (3, 2), broken)
    found = match(Checkpoint("t", "mindspore", parameters), checkpoint("pytorch", {"x.weight": equal}))
    assert [(p.name, p.golden and p.golden.name) for p in found.pairs] == [("a.weight", "x.weight"), ("b.weight", None)]


@pytest.mark.parametrize("exchanged", [False, True])
def test_a_rule_for_a_path_knows_the_layers_own_names(exchanged):
    """At the beginning of a port every norm is ones and zeros: no value tells them apart, only the user can."""
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    ours = {
        f"layers.{n}.{norm}.{own}": v for n in (0, 1) for norm in "ab" for own, v in (("gamma", ones), ("beta", zeros))
    }
    theirs = {f"h.{n}.{ln}.{own}": v for n in (0, 1) for ln in "xy" for own, v in (("weight", ones), ("bias", zeros))}
    sides = [checkpoint("mindspore", ours), checkpoint("pytorch", theirs)]
    rules = {f"layers.{n}.{norm}": f"h.{n}.{ln}" for n in (0, 1) for norm, ln in (("a", "y"), ("b", "x"))}
    if exchanged:
        sides.reverse()
        rules = {theirs: ours for ours, theirs in rules.items()}
    found = match(*sides, {name: DataRule(to) for name, to in rules.items()})
    pairs = {(p.target.name, p.golden.name) for p in found.pairs if p.target and p.golden}
    expected = {
        (f"layers.{n}.{norm}.{own}", f"h.{n}.{ln}.{there}")
        for n in (0, 1)
        for norm, ln in (("a", "y"), ("b", "x"))
        for own, there in (("gamma", "weight"), ("beta", "bias"))
    }
    assert pairs == ({(b, a) for a, b in expected} if exchanged else expected)
