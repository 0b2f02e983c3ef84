"""Counterparts are found by structure, values and order; names carry nothing, and no pair is wrong."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from msprobe.compare.counterparts.search import find_counterparts

sys.path.insert(0, str(Path(__file__).parent))

from made import Choices, run  # beside this file, which is no package

MS, PT = Choices("mindspore"), Choices("pytorch")


def found(target, golden, **options):
    """Right, wrong and missing pairs of roles between two sides."""
    (left, mine), (right, theirs) = run(target), run(golden)
    result = find_counterparts(left, right, **options)
    pairs = [(mine[left.calls[p.target].name], theirs[right.calls[p.golden].name]) for p in result.calls]
    right_ones = {a for a, b in pairs if a and a == b}
    wrong = sorted((a, b) for a, b in pairs if not a or a != b)
    required = (set(mine.values()) & set(theirs.values())) - {""}
    return right_ones, wrong, required - right_ones


SWAPPED = {f"second {a}{end}": f"second {b}{end}" for a, b in ("qk", "kq") for end in ("", " bias")}

ENDS = "", " backward", " gradients"

CASES = {
    "one net": (MS, PT),
    "the other way round": (PT, MS),
    "names scrambled": (Choices("mindspore", scrambled=True), PT),
    "v before q on one side": (Choices("mindspore", order="vqk"), PT),
    "equal weights": (
        Choices("mindspore", equal=True, sources=True),
        Choices("pytorch", equal=True, sources=True),
    ),
    "equal weights, v before q": (
        Choices("mindspore", equal=True, sources=True, order="vqk"),
        Choices("pytorch", equal=True, sources=True),
    ),
    "equal weights, and every value drifts": (
        Choices("mindspore", equal=True, drift=0.3, sources=True),
        Choices("pytorch", equal=True, sources=True),
    ),
    "one constant for all weights": (Choices("mindspore", constant=True), Choices("pytorch", constant=True)),
    "one constant for all weights, every value drifts": (
        Choices("mindspore", constant=True, drift=0.3, scrambled=True),
        Choices("pytorch", constant=True),
    ),
    "an extra block in the middle": (Choices("mindspore", blocks=("first", "new", "second", "third")), PT),
    "a missing block": (Choices("mindspore", blocks=("first", "third")), PT),
    "a dropout that is off": (MS, Choices("pytorch", dropout=True)),
    "a wrapper around each block": (Choices("mindspore", wrapped=True), PT),
    "one weight is wrong": (Choices("mindspore", wrong=("second k",)), PT),
    "q and k hold each other's weights": (Choices("mindspore", swapped=SWAPPED), PT),
    "every value drifts": (Choices("mindspore", drift=0.3), PT),
    "every value drifts, names scrambled": (Choices("mindspore", drift=0.3, scrambled=True), PT),
    "every value drifts, v before q": (Choices("mindspore", drift=0.3, order="vqk"), PT),
    "digests only": (Choices("mindspore", md5=True), Choices("pytorch", md5=True)),
    "modules only": (Choices("mindspore", level="L0"), Choices("pytorch", level="L0")),
    "modules only, a missing block": (
        Choices("mindspore", level="L0", blocks=("first", "third")),
        Choices("pytorch", level="L0"),
    ),
    "APIs only": (Choices("mindspore", level="L1"), Choices("pytorch", level="L1")),
    "APIs only, every value drifts": (Choices("mindspore", level="L1", drift=0.3), Choices("pytorch", level="L1")),
    "APIs only, v before q": (Choices("mindspore", level="L1", order="vqk"), Choices("pytorch", level="L1")),
}


@pytest.mark.parametrize("case", CASES)
def test_every_call_with_a_counterpart_is_paired_and_none_wrongly(case):
    _, wrong, missing = found(*CASES[case])
    assert not wrong
    assert not missing


def test_without_modules_layers_of_equal_weights_and_results_are_rather_left_open_than_paired_wrongly():
    sides = Choices("mindspore", level="L1", equal=True), Choices("pytorch", level="L1", equal=True)
    _, wrong, missing = found(*sides)
    assert not wrong
    assert {role.split()[1] for role in missing} == set("qkv")


@pytest.mark.parametrize("order", ["qkv", "vqk"])
def test_where_no_dump_says_whence_tensors_come_equal_layers_are_rather_left_open_than_paired_by_order(order):
    _, wrong, missing = found(Choices("mindspore", equal=True, order=order), Choices("pytorch", equal=True))
    assert not wrong
    assert {role.split()[1] for role in missing} <= {"q", "k", "v", "turn"}


@pytest.mark.parametrize(
    "blocks", [("first", "new", "second", "third"), ("new", "first", "second", "third"), ("first", "third")]
)
def test_without_modules_no_pair_is_wrong_where_one_side_has_another_number_of_blocks(blocks):
    sides = Choices("mindspore", level="L1", blocks=blocks, sources=True), Choices("pytorch", level="L1", sources=True)
    right, wrong, missing = found(*sides)
    assert not wrong
    assert len(right) > 0.9 * len(right | missing)


def test_parts_of_a_fused_projection_share_its_call_and_the_rest_is_paired():
    (left, mine), (right, theirs) = run(MS), run(Choices("pytorch", fused=True))
    result = find_counterparts(left, right)
    pairs = {(mine[left.calls[p.target].name], theirs[right.calls[p.golden].name]) for p in result.calls}
    shared = {(f"{label} {w}{end}", f"{label} qkv{end}") for label in MS.blocks for w in "qkv" for end in ENDS}
    same = {role for role in set(mine.values()) & set(theirs.values()) if role}
    assert pairs == shared | {(role, role) for role in same}


def test_a_fused_target_stays_open_with_its_parts_and_the_rest_is_paired():
    (left, mine), (right, theirs) = run(Choices("pytorch", fused=True)), run(MS)
    result = find_counterparts(left, right)
    pairs = {(mine[left.calls[p.target].name], theirs[right.calls[p.golden].name]) for p in result.calls}
    assert pairs == {(role, role) for role in set(mine.values()) & set(theirs.values()) if role}
    parts = {
        mine[left.calls[n].name]: [theirs[right.calls[c].name] for c in found] for n, found in result.ambiguous.items()
    }
    assert parts == {f"{label} qkv": [f"{label} {w}" for w in "qkv"] for label in MS.blocks}


def test_what_nothing_tells_apart_stays_open_with_its_candidates():
    """q, k and v have equal weights and are given one tensor; one side did not collect q: is it k and v, or q and k?"""
    choices = {"level": "L0", "equal": True}
    (left, _), (right, _) = run(Choices("mindspore", **choices)), run(Choices("pytorch", **choices))
    gone = "Cell.blocks.0.attention.query.Dense.forward.0"
    left = replace(left, calls=tuple(call for call in left.calls if call.name != gone))
    names, there = [call.name for call in left.calls], [call.name for call in right.calls]
    result = find_counterparts(left, right)
    for which in ("key", "value"):
        at = names.index(f"Cell.blocks.0.attention.{which}.Dense.forward.0")
        assert at not in result.golden_of
        candidates = {f"Module.h.0.attn.{w}_proj.Linear.forward.0" for w in "qkv"}
        assert {there[n] for n in result.ambiguous[at]} == candidates


def test_pairs_of_the_user_are_kept_and_lead_the_rest():
    (left, _), (right, _) = run(MS), run(PT)
    at = {call.name: n for n, call in enumerate(left.calls)}
    there = {call.name: n for n, call in enumerate(right.calls)}
    query, value = at["Cell.blocks.0.attention.query.Dense.forward.0"], there["Module.h.0.attn.v_proj.Linear.forward.0"]
    result = find_counterparts(left, right, fixed={query: value})
    made = {p.target: p for p in result.calls}
    assert (made[query].golden, made[query].confidence) == (value, 1.0)
    back = at["Cell.blocks.0.attention.query.Dense.backward.0"]
    assert made[back].golden == there["Module.h.0.attn.v_proj.Linear.backward.0"]


def test_parts_that_the_user_joins_share_their_golden_call():
    (left, _), (right, _) = run(Choices("mindspore", drift=0.2)), run(Choices("pytorch", fused=True, md5=True))
    at = {call.name: n for n, call in enumerate(left.calls)}
    there = [call.name for call in right.calls].index("Module.h.1.attn.qkv.Linear.forward.0")
    parts = [at[f"Cell.blocks.1.attention.{w}.Dense.forward.0"] for w in ("query", "key", "value")]
    result = find_counterparts(left, right, fixed=dict.fromkeys(parts, there))
    assert {n: result.golden_of[n] for n in parts} == dict.fromkeys(parts, there)


def test_every_pair_has_a_confidence_and_a_reason_in_words():
    (left, _), (right, _) = run(MS), run(PT)
    for pair in find_counterparts(left, right).calls:
        assert 0.0 < pair.confidence <= 1.0
        assert pair.reason[:1].islower()


def test_two_nets_that_have_nothing_in_common_have_no_pairs():
    (left, _), (right, _) = run(Choices("mindspore", blocks=())), run(PT)
    empty = type(left)("", "", "", "mix", "mindspore", ())
    assert find_counterparts(empty, right).calls == ()
    assert find_counterparts(left, type(left)("", "", "", "mix", "pytorch", ())).calls == ()
