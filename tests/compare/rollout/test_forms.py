"""Whatever the form in which the same ragged log-probs are given, the answer is the same to the last bit."""

import contextlib
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import UsageError
from msprobe.compare.rollout.entry import compare_rollout

log_probs = st.lists(st.floats(-20, 0, width=32), max_size=9)
batches = st.lists(log_probs, min_size=1, max_size=7).filter(lambda rows: any(rows))
forms = st.sampled_from(["list", "right", "left", "in row", "lengths", "from prompt", "packed", "packed with prompts"])


def shaped(form, rows, prompts, fill):
    """The rows in one of the forms, each with what has to be given beside it."""
    sizes = np.array([len(row) for row in rows])
    if form == "list":
        return rows, None, None
    if form.startswith("packed"):
        with_prompts = form != "packed"
        parts = [part for row, p in zip(rows, prompts, strict=True) for part in ([fill] * (p * with_prompts), row)]
        return np.concatenate([np.asarray(part, np.float64) for part in parts]), None, sizes
    before = prompts if form in ("in row", "from prompt") else np.zeros_like(sizes)
    width = int((before + sizes).max()) + 2
    if form == "left":
        before = width - sizes
    matrix, mask = np.full((len(rows), width), float(fill)), np.zeros((len(rows), width), np.int64)
    for at, row in enumerate(rows):
        matrix[at, before[at] : before[at] + len(row)] = row
        mask[at, before[at] : before[at] + len(row)] = 1
    return (matrix, None, sizes) if form in ("lengths", "from prompt") else (matrix, mask, None)


def numbers(result):
    """All that is measured, with NaN as a text so that it equals itself."""
    overall = [v if v == v else "nan" for v in asdict(result.overall).values()]
    arrays = [*vars(result.by_position).values(), *vars(result.by_sample).values()]
    return overall, [[v if v == v else "nan" for v in array.tolist()] for array in arrays]


def test_a_matrix_whose_prompts_are_not_in_it_needs_its_mask():
    with pytest.raises(UsageError, match="prompt_lengths apply if a row also contains its prompt"):
        compare_rollout(np.zeros((1, 3)), [[0.0] * 3], lengths=[3], prompt_lengths=[5])


@given(batches, forms, forms, st.randoms(use_true_random=False))
def test_every_form_gives_the_same_answer(rows, form, other_form, random):
    rows = [np.array(row) for row in rows]
    others = [row - random.random() * np.arange(len(row)) for row in rows]
    prompts = np.array([random.randint(1, 5) for _ in rows])
    plain = compare_rollout(rows, others, prompt_lengths=prompts)
    # Where a matrix has no mask, prompt_lengths mean that the prompts stand in the row.
    expected = {"generated": shaped(form, rows, prompts, 7), "recomputed": shaped(other_form, others, prompts, np.nan)}
    more = {}
    for name, (_, mask, sizes) in expected.items():
        more[f"{name}_mask"], more[f"{name}_lengths"] = mask, sizes
    if "lengths" not in (form, other_form):
        more["prompt_lengths"] = prompts
    elif {"packed with prompts", "from prompt"} & {form, other_form}:
        return  # these two need what that one must not have
    result = compare_rollout(expected["generated"][0], expected["recomputed"][0], **more)
    assert numbers(result) == numbers(plain)
    assert result.verdict.grade == plain.verdict.grade
    if "lengths" not in (form, other_form):
        assert result.cause == plain.cause


@given(batches, st.randoms(use_true_random=False))
def test_gaps_are_those_of_a_plain_loop(rows, random):
    others = [[value - random.random() for value in row] for row in rows]
    result = compare_rollout(rows, others)
    gaps = [[g - r for g, r in zip(*pair, strict=True)] for pair in zip(rows, others, strict=True)]
    flat = [gap for row in gaps for gap in row]
    o = result.overall
    assert (o.samples, o.tokens) == (len(rows), len(flat))
    assert o.mean == pytest.approx(math.fsum(flat) / len(flat), abs=1e-12)
    assert o.mean_absolute == pytest.approx(math.fsum(map(abs, flat)) / len(flat), abs=1e-12)
    assert o.max_absolute == max(map(abs, flat))
    assert o.k1 == o.mean
    assert o.k2 == pytest.approx(math.fsum(gap * gap / 2 for gap in flat) / len(flat), abs=1e-12)
    assert o.k3 == pytest.approx(math.fsum(math.exp(-gap) - 1 + gap for gap in flat) / len(flat), abs=1e-12)
    for at, row in enumerate(gaps):
        if row:
            assert result.by_sample.max_absolute[at] == max(map(abs, row))
            assert abs(row[result.by_sample.worst[at]]) == max(map(abs, row))
            assert result.by_sample.mean[at] == pytest.approx(math.fsum(row) / len(row), abs=1e-12)
        else:
            assert result.by_sample.worst[at] == -1
            assert math.isnan(result.by_sample.mean[at])
    for position in range(max(map(len, gaps))):
        column = [row[position] for row in gaps if len(row) > position]
        assert result.by_position.count[position] == len(column)
        assert result.by_position.mean[position] == pytest.approx(math.fsum(column) / len(column), abs=1e-12)
        assert result.by_position.max_absolute[position] == max(map(abs, column))


@given(batches, st.randoms(use_true_random=False))
def test_samples_in_another_order_are_paired_by_their_tokens(rows, random):
    rows = [np.array(row) for row in rows]
    others = [row - random.random() * np.arange(len(row)) for row in rows]
    tokens = [np.array([at, *range(len(row) - 1)])[: len(row)] for at, row in enumerate(rows)]
    order = list(range(len(rows)))
    random.shuffle(order)
    plain = compare_rollout(rows, others, generated_tokens=tokens, recomputed_tokens=tokens)
    moved = compare_rollout(
        rows,
        [others[at] for at in order],
        generated_tokens=tokens,
        recomputed_tokens=[tokens[at] for at in order],
    )
    assert numbers(moved) == numbers(plain)
    assert moved.cause == plain.cause


def test_of_equal_responses_those_of_the_nearest_log_probs_are_paired():
    """Which of them is which the ids do not tell."""
    generated, recomputed = [[-1.0, -1.0], [-3.0, -3.0], [-5.0, -5.0]], [[-5.0, -5.0], [-1.0, -1.0], [-3.0, -3.0]]
    answer = compare_rollout(
        generated, recomputed, generated_tokens=[[7, 8], [7, 8], [1, 2]], recomputed_tokens=[[1, 2], [7, 8], [7, 8]]
    )
    assert answer.overall.max_absolute == 0


@given(batches, st.randoms(use_true_random=False))
def test_the_order_of_both_sides_together_says_nothing(rows, random):
    rows = [np.array(row) for row in rows]
    others = [row - random.random() * np.arange(len(row)) for row in rows]
    order = list(range(len(rows)))
    random.shuffle(order)
    plain = compare_rollout(rows, others)
    moved = compare_rollout([rows[at] for at in order], [others[at] for at in order])
    for name, value in asdict(plain.overall).items():
        assert getattr(moved.overall, name) == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True)
    assert moved.by_sample.max_absolute.tolist() == pytest.approx(
        plain.by_sample.max_absolute[order].tolist(), nan_ok=True
    )
    assert moved.cause == plain.cause


def test_equal_responses_behind_other_prompts_are_told_apart_by_their_log_probs():
    tokens = [[5, 6, 7, 2], [5, 6, 7, 2], [8, 9, 10, 2]]
    values = [[-1.0, -1.0, -1.0, -0.5], [-3.0, -3.0, -2.0, -0.5], [-0.1, -0.2, -0.3, -0.4]]
    order = [2, 1, 0]
    result = compare_rollout(
        values,
        [values[at] for at in order],
        generated_tokens=tokens,
        recomputed_tokens=[tokens[at] for at in order],
    )
    assert result.overall.max_absolute == 0
    assert result.aligned.other_sample.tolist() == [2, 1, 0]
    assert "paired by their token ids" in " ".join(result.evidence)


def test_an_end_token_that_one_side_dropped_is_no_difference():
    values = [[-1.0, -2.0, -0.5, -0.25], [-0.3, -0.4, -0.25], [-1.0] * 5]
    shorter = [values[0][:-1], values[1][:-1], values[2]]  # the last was cut by the limit and has no end token
    for pair in ((values, shorter), (shorter, values)):
        result = compare_rollout(*pair)
        assert result.cause == "none"
        assert result.overall.tokens == 10
        assert "An additional end token in 2 samples" in " ".join(result.evidence)


def test_a_reordered_side_without_end_tokens_is_paired_too():
    rng = np.random.default_rng(0)
    tokens = [np.append(rng.integers(3, 90, 6), 2) for _ in range(9)]
    values = [-rng.random(7) for _ in range(9)]
    order = rng.permutation(9)
    result = compare_rollout(
        values,
        [values[at][:-1] for at in order],
        generated_tokens=tokens,
        recomputed_tokens=[tokens[at][:-1] for at in order],
    )
    assert result.cause == "none"
    assert result.aligned.other_sample.tolist() == np.argsort(order).tolist()


def test_samples_on_one_side_only_are_said():
    tokens = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    values = [[-1.0] * 3, [-2.0] * 3, [-3.0] * 3]
    result = compare_rollout(
        values, values[:1] + values[2:], generated_tokens=tokens, recomputed_tokens=tokens[:1] + tokens[2:]
    )
    assert result.overall.max_absolute == 0
    assert result.verdict.grade == "unjudged"
    assert "1 samples are only in generated" in " ".join(result.evidence)


@given(batches, st.floats(0, 3), st.randoms(use_true_random=False))
def test_nothing_passes_but_what_agrees(rows, size, random):
    others = [[value - random.random() * size * random.choice([0, 1e-6, 1]) for value in row] for row in rows]
    prompts = [random.randint(1, 9) for _ in rows]
    result = compare_rollout(rows, others, prompt_lengths=prompts)
    agrees = result.overall.mean_absolute <= 1e-5 and result.overall.max_absolute <= 1e-3
    assert result.is_clean == (agrees and result.cause == "none")
    assert (result.cause == "none") == (result.verdict.grade == "pass")
    assert result.verdict or result.evidence or result.cause == "unclear"


extreme = st.sampled_from([-3e38, -1e9, -800.0, -20.0, -1.0, -1e-3, -1e-30, -0.0, 0.0, float("nan"), float("-inf")])


@given(
    st.lists(st.lists(st.tuples(extreme, extreme), max_size=12), min_size=1, max_size=8),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_any_values_get_an_answer_or_a_sentence(rows, with_more, random):
    """No warning of numpy either: those are errors in these tests."""
    sides = [[np.array([pair[side] for pair in row]) for row in rows] for side in (0, 1)]
    more = {}
    if with_more:
        tokens = [[random.randint(0, 3) for _ in row] for row in rows]
        more = {"generated_tokens": tokens, "recomputed_tokens": tokens}
        more |= {name: [random.randint(0, 9) for _ in rows] for name in ("prompt_lengths", "steps")}
    broken = [
        at for at, pair in enumerate(zip(*sides, strict=True)) if not all(value > -1e30 for value in np.ravel(pair))
    ]
    if not any(row for at, row in enumerate(rows) if at not in broken):
        with pytest.raises(UsageError, match="no token has"):
            compare_rollout(*sides)
        return
    result = compare_rollout(*sides)
    assert sorted(result.unjudged) == broken
    with contextlib.suppress(UsageError):  # equal tokens may be paired anew, with a NaN in every pair
        result = compare_rollout(*sides, **more)
    assert result.lines()
    if result.verdict.grade == "pass":
        assert result.overall.max_absolute <= 1e-3
        assert not broken


def test_the_longest_beginning_is_paired_first():
    """Cut responses in another order; [1] is a beginning of three, and is left for the one that needs it."""
    whole = [[1, 2, 3, 4], [1, 2, 9], [1, 7], [5, 5, 5]]
    cut = [[5], [1, 2, 3], [1, 2], [1]]
    values = [[-float(sum(row[: at + 1])) for at in range(len(row))] for row in whole]
    others = [[-float(sum(row[: at + 1])) for at in range(len(row))] for row in cut]
    result = compare_rollout(values, others, generated_tokens=whole, recomputed_tokens=cut)
    assert result.aligned.sample.tolist() == [0, 1, 2, 3]
    assert result.aligned.other_sample.tolist() == [1, 2, 3, 0]
    assert result.overall.max_absolute == 0
    assert result.cause == "truncation"


@pytest.mark.parametrize("fill", [np.nan, -np.inf, np.inf, 0.0, 5.0, -3e38])
@pytest.mark.parametrize("kind", [bool, np.uint8, np.int32, np.float16])
def test_what_padding_holds_says_nothing(fill, kind):
    """Nor does it where the mask has holes, as of what a tool said inside a response."""
    values = -np.arange(1.0, 13.0).reshape(2, 6)
    inside = np.array([[0, 1, 1, 0, 1, 0], [1, 0, 0, 0, 1, 1]], bool)
    tokens = np.where(inside, np.arange(12.0).reshape(2, 6), fill)
    masks = {name: inside.astype(kind) for name in ("generated_mask", "recomputed_mask")}
    result = compare_rollout(np.where(inside, values, fill), values, generated_tokens=tokens, **masks)
    assert result.cause == "none"
    assert result.aligned.generated.tolist() == [-2, -3, -5, -7, -11, -12]
    assert result.aligned.ids.tolist() == [1, 2, 4, 6, 10, 11]


def test_an_array_of_arrays_is_a_list_of_them():
    rows = [np.array([-1.0, -2.0]), np.array([-3.0])]
    result = compare_rollout(np.array(rows, dtype=object), rows)
    assert result.aligned.lengths.tolist() == [2, 1]


def test_a_mask_that_holds_the_prompt_too_is_said():
    rng = np.random.default_rng(0)
    prompts, lengths = rng.integers(2, 9, 12), rng.integers(4, 20, 12)
    whole = [-rng.exponential(1, p + n) for p, n in zip(prompts, lengths, strict=True)]
    responses = [row[p:] for row, p in zip(whole, prompts, strict=True)]
    for sides in ((whole, responses), (responses, whole)):
        result = compare_rollout(*sides, prompt_lengths=prompts)
        assert result.cause == "mask"
        assert "its mask also contains the prompt" in result.evidence[0]


def test_holes_that_only_one_mask_has_are_not_said_to_be_a_cut():
    rng = np.random.default_rng(0)
    rows = [-rng.exponential(1, rng.integers(30, 50)) for _ in range(12)]
    without = [np.delete(row, slice(at := rng.integers(2, 9), at + rng.integers(5, 15))) for row in rows]
    result = compare_rollout(without, rows)
    assert result.cause == "unclear"
    assert {one.cause for one in result.candidates[:2]} == {"mask", "truncation"}
    assert "as tool outputs" in result.evidence[0]
    assert compare_rollout([row[:20] for row in rows], rows).cause == "truncation"
