"""What has nothing in common with generation, or too little of it to tell, is not given the name of a cause."""

import numpy as np
import pytest
from markov import VOCABULARY, again, cut_prompts, generate, language, padded_attended, settings, to_bfloat16

from msprobe.compare.rollout.entry import compare_rollout

SEEDS = range(4)


def cause_of(rollout, recomputed, **more):
    result = compare_rollout(rollout.log_probs, recomputed, prompt_lengths=rollout.prompts, **more)
    return result.cause, {one.cause for one in result.candidates}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sure_model_that_is_another_one_is_no_shift(seed):
    rollout = generate(seed, sharp=4)
    cause, candidates = cause_of(rollout, again(rollout, language(seed + 100, sharp=4)))
    assert cause == "unclear"
    assert {"weights", "tokens"} <= candidates
    cause, candidates = cause_of(
        rollout, again(rollout, language(seed + 100, sharp=4)), generated_tokens=rollout.responses
    )
    assert cause == "unclear"


@pytest.mark.parametrize("seed", SEEDS)
def test_ids_that_all_mean_other_tokens_are_no_shift(seed):
    rollout = generate(seed, sharp=4)
    other = np.random.default_rng(seed).permutation(VOCABULARY)
    cause, candidates = cause_of(rollout, again(rollout, ids=[other[s] for s in rollout.sequences]))
    assert cause == "unclear"
    assert "tokens" in candidates


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("seed", SEEDS)
def test_labels_that_are_places_off_are_told_by_the_places_with_one_token(seed, step):
    rollout = generate(seed)
    recomputed = again(rollout, step=step)
    result = compare_rollout(rollout.log_probs, recomputed)
    assert result.cause == "shift"
    assert f"generated at offset {step:+d}" in result.evidence[0]
    # Counted by hand: where the token of this place stands `step` later too, the two are one number. Sure ones tell
    # nothing, and up to three more are equal by chance.
    same = 0
    for ids, g, r in zip(rollout.responses, rollout.log_probs, recomputed, strict=True):
        places = [t for t in range(len(ids)) if 0 <= t + step < len(ids) and ids[t] == ids[t + step]]
        assert all(r[t] == pytest.approx(g[t + step], abs=1e-9) for t in places)
        same += sum(r[t] < -0.01 and abs(g[t] - r[t]) > 1e-4 for t in places)
    number = int(result.evidence[0].split()[1])
    assert same <= number <= same + 3


@pytest.mark.parametrize("seed", SEEDS)
def test_labels_are_told_through_bfloat16_by_probabilities_that_stay_below_1(seed):
    rollout = generate(seed, count=400, sharp=2)
    recomputed = again(rollout, step=1, change=lambda z, sample, place: to_bfloat16(z))
    result = compare_rollout(rollout.log_probs, recomputed)
    assert result.cause == "shift"
    pairs = list(zip(rollout.log_probs, recomputed, strict=True))
    assert max((np.exp(g[1:]) + np.exp(r[:-1]))[np.abs(g[1:] - r[:-1]) > 0.05].max() for g, r in pairs) < 1.05


@pytest.mark.parametrize("seed", SEEDS)
def test_one_sample_of_three_does_not_tell_padding_from_a_cut_prompt(seed):
    """Whatever its prompt: one of three is the shortest, or the longest, by chance."""
    rollout = generate(seed, count=3, longest=60)
    shown = np.random.default_rng(seed).normal(0, 1, VOCABULARY)
    for one in range(3):
        recomputed = again(rollout, change=lambda z, sample, place, one=one: z + (sample == one) * shown)
        assert cause_of(rollout, recomputed)[0] == "unclear"


@pytest.mark.parametrize("seed", SEEDS)
def test_top_p_is_seen_through_rounding_by_the_mass_that_is_missing(seed):
    """Of what was kept at each place, 0.95 on average; without that, rounding alone, whose ratio is 1 on average."""
    rng = np.random.default_rng(seed)
    values, kept, noise = -rng.exponential(1, 4000), rng.uniform(0.9, 1, 4000), rng.normal(0, 0.03, 4000)
    cut, plain = values + np.log(kept) + noise, values + noise - 0.03**2 / 2
    rows = [slice(at, at + 40) for at in range(0, 4000, 40)]
    answers = [
        compare_rollout([values[at] for at in rows], [np.minimum(r[at], 0) for at in rows]) for r in (cut, plain)
    ]
    assert [result.cause == "sampling settings" for result in answers] == [True, False]
    assert "is 0.95" in answers[0].evidence[0] or "is 0.94" in answers[0].evidence[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wide_top_k_leaves_little_and_is_seen(seed):
    rollout = generate(seed, engine=settings(top_k=38))
    result = compare_rollout(rollout.log_probs, again(rollout))
    assert result.overall.mean_absolute < 1e-3
    assert result.cause == "sampling settings", result.lines()


@pytest.mark.parametrize("seed", SEEDS)
def test_zeros_of_a_sure_policy_are_no_places_that_nobody_filled(seed):
    rollout = generate(seed, count=96, sharp=12)
    values = [np.where(v > -1e-3, 0.0, v) for v in rollout.log_probs]
    assert np.mean(np.concatenate(values) == 0) > 0.2
    for recomputed in (cut_prompts(rollout, 14), again(rollout, change=padded_attended(rollout, seed))):
        result = compare_rollout(values, recomputed)
        assert "exactly 0" not in " ".join(result.evidence)


@pytest.mark.parametrize("length", [1, 2])
def test_responses_of_one_or_two_tokens_name_no_place(length):
    rollout = generate(0, count=200, longest=40, sharp=4)
    values = [v[:length] for v in rollout.log_probs]
    others = [v[:length] for v in again(rollout, language(7, sharp=4))]
    assert compare_rollout(values, others).cause == "unclear"
    assert compare_rollout(values, [np.float32(v) for v in values]).cause == "none"


@pytest.mark.parametrize("seed", SEEDS)
def test_rounding_at_the_first_token_is_no_packed_neighbor(seed):
    """One id is another one: in bfloat16 all samples differ from their first token on, by rounding."""
    rollout = generate(seed, count=96, sharp=4)
    counts = np.bincount(np.concatenate(rollout.responses), minlength=VOCABULARY)
    rare = int(np.flatnonzero(counts > counts.sum() / 100)[counts[counts > counts.sum() / 100].argmin()])
    pairs = zip(rollout.sequences, rollout.prompts, strict=True)
    ids = [np.where((s == rare) & (np.arange(len(s)) >= p), (rare + 7) % VOCABULARY, s) for s, p in pairs]
    recomputed = again(rollout, ids=ids, change=lambda z, sample, place: to_bfloat16(z))
    assert cause_of(rollout, recomputed)[0] in ("tokens", "unclear")


@pytest.mark.parametrize("seed", SEEDS)
def test_one_short_sample_that_is_sure_of_its_tokens_does_not_make_an_eps_a_cut(seed):
    """It moves by less than the others, which is no agreement."""
    rng = np.random.default_rng(seed)
    sizes, prompts = rng.integers(20, 60, 64), rng.integers(10, 60, 64)
    values = [-rng.exponential(1, n) for n in sizes]
    short = int((sizes + prompts).argmin())
    values[short] = values[short] / 20
    recomputed = [v * (1 + 1e-3 * rng.uniform(-1, 1, len(v))) for v in values]
    result = compare_rollout(values, recomputed, prompt_lengths=prompts)
    gaps = np.sort(result.by_sample.mean_absolute)
    assert gaps[0] < 1e-4
    assert gaps[1] > 5 * gaps[0]
    assert (result.verdict.grade, result.cause) == ("warning", "numerics")
