"""Causes planted into a language with exact log-probs are named, on every seed; clean runs raise no alarm."""

import numpy as np
import pytest
from markov import (
    VOCABULARY,
    Language,
    again,
    cut_prompts,
    generate,
    other_weights,
    padded_attended,
    settings,
    to_bfloat16,
)

from msprobe.compare.rollout.entry import compare_rollout

SEEDS = range(4)


def _ids(rollout):
    """The same sequences with one of the more frequent ids taken for another, in responses alone."""
    count = np.bincount(np.concatenate(rollout.responses), minlength=VOCABULARY)
    wrong = int(count.argsort()[-5])
    pairs = zip(rollout.sequences, rollout.prompts, strict=True)
    return [np.where((s == wrong) & (np.arange(len(s)) >= p), (wrong + 7) % VOCABULARY, s) for s, p in pairs]


def _with(**engine):
    def plant(seed):
        rollout = generate(seed, engine=settings(**engine))
        return rollout, again(rollout)

    return plant


def _weights(size):
    return lambda seed: (r := generate(seed), again(r, other_weights(r.language, seed, size)))


def _untrained(seed):
    rollout = generate(seed)
    nothing = Language(*(0 * table for table in vars(rollout.language).values()))
    return rollout, again(rollout, other_weights(nothing, seed, 0.1))


def _then(change):
    """What is done to the log-probs of each response."""
    return lambda seed: (r := generate(seed), [change(v) for v in again(r)])


def _logits(change):
    return lambda seed: (r := generate(seed), again(r, change=lambda z, sample, place: change(z)))


def _mask(seed):
    rollout = generate(seed)
    return rollout, again(rollout, change=padded_attended(rollout, seed))


def _mask_and_rounding(seed):
    rollout = generate(seed)
    attended = padded_attended(rollout, seed)
    return rollout, again(rollout, change=lambda *at: to_bfloat16(attended(*at)))


def _packed(seed):
    """Every other sample sees its neighbor in the batch."""
    rollout = generate(seed)
    shown = np.random.default_rng(seed).normal(0, 1, VOCABULARY)
    return rollout, again(rollout, change=lambda z, sample, place: z + (sample % 2) * shown)


PLANTS = {
    "temperature 0.7": ("sampling settings", _with(temperature=0.7)),
    "temperature 0.9": ("sampling settings", _with(temperature=0.9)),
    "temperature 1.3": ("sampling settings", _with(temperature=1.3)),
    "top-k": ("sampling settings", _with(top_k=5)),
    "top-p": ("sampling settings", _with(top_p=0.8)),
    "temperature and top-p": ("sampling settings", _with(temperature=0.8, top_p=0.9)),
    "weights, one update": ("weights", _weights(0.05)),
    "weights, many updates": ("weights", _weights(0.3)),
    "weights, other model": ("weights", _weights(1.0)),
    "weights, never trained": ("weights", _untrained),
    "shift, late": ("shift", _then(lambda v: np.append(v[1:], v[:1]))),
    "shift, early": ("shift", _then(lambda v: np.append(v[-1:], v[:-1]))),
    "shift of labels": ("shift", lambda seed: (r := generate(seed), again(r, step=1))),
    "shift of labels back": ("shift", lambda seed: (r := generate(seed), again(r, step=-1))),
    "padding": ("mask", _mask),
    "padding, and rounding": ("mask", _mask_and_rounding),
    "packed neighbors": ("mask", _packed),
    "one token id": ("tokens", lambda seed: (r := generate(seed), again(r, ids=_ids(r)))),
    "prompts cut": ("truncation", lambda seed: (r := generate(seed), cut_prompts(r, 10))),
    "responses cut": ("truncation", _then(lambda v: v[:24])),
    "responses not filled": ("truncation", _then(lambda v: np.where(np.arange(len(v)) < 24, v, 0))),
    "bfloat16 logits": ("numerics", _logits(to_bfloat16)),
    "bfloat16 log-probs": ("numerics", _then(to_bfloat16)),
    "float16": ("numerics", _logits(lambda z: z.astype(np.float16).astype(np.float64))),
    "eps": ("numerics", _logits(lambda z: z * (1 - 5e-4))),
    "great eps": ("numerics", _logits(lambda z: z * (1 - 5e-3))),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_cause_is_named(name, seed):
    cause, plant = PLANTS[name]
    rollout, recomputed = plant(seed)
    result = compare_rollout(rollout.log_probs, recomputed, prompt_lengths=rollout.prompts)
    assert result.cause == cause, "\n".join(result.lines())
    assert result.verdict.grade == ("warning" if cause == "numerics" else "error")
    assert result.evidence
    assert result.candidates[0].cause == cause


@pytest.mark.parametrize("seed", SEEDS)
def test_rounding_of_float32_is_no_alarm(seed):
    rollout = generate(seed)
    rng = np.random.default_rng(seed)
    recomputed = [np.float32(v + rng.normal(0, 2e-6, len(v))) for v in again(rollout)]
    values = [np.float32(v) for v in rollout.log_probs]
    result = compare_rollout(values, recomputed, prompt_lengths=rollout.prompts, generated_tokens=rollout.responses)
    assert (result.verdict.grade, result.cause) == ("pass", "none")
    assert result.is_clean


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_of_two_bfloat16_engines_is_said_as_numerics(seed):
    rollout = generate(seed)
    rng = np.random.default_rng(seed)
    sides = [[np.minimum(v + rng.normal(0, 1e-2, len(v)), 0) for v in rollout.log_probs] for _ in range(2)]
    result = compare_rollout(*sides, prompt_lengths=rollout.prompts)
    assert (result.verdict.grade, result.cause) == ("warning", "numerics")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sides_may_be_exchanged(seed):
    """Temperature, and top-k, on the side of the training."""
    for engine in (settings(temperature=0.7), settings(top_p=0.7)):
        rollout = generate(seed, engine=engine)
        result = compare_rollout(again(rollout), rollout.log_probs, prompt_lengths=rollout.prompts)
        assert result.cause == "sampling settings"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_penalty_of_repetition_is_seen_with_the_tokens(seed):
    rollout = generate(seed, engine=settings(penalty=1.3))
    result = compare_rollout(rollout.log_probs, again(rollout), generated_tokens=rollout.responses)
    assert result.cause == "sampling settings"
    assert "in the response" in result.evidence[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_token_id_is_named_with_the_tokens_of_one_side_and_of_both(seed):
    rollout = generate(seed)
    ids = _ids(rollout)
    others = [s[p:] for s, p in zip(ids, rollout.prompts, strict=True)]
    changed = next(int(a[a != b][0]) for a, b in zip(rollout.responses, others, strict=True) if (a != b).any())
    for more in ({}, {"recomputed_tokens": others}):
        result = compare_rollout(rollout.log_probs, again(rollout, ids=ids), generated_tokens=rollout.responses, **more)
        assert result.cause == "tokens"
        assert str(changed) in result.evidence[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_that_part_at_a_step_are_told_by_the_steps(seed):
    """So small a gap would be rounding in one batch; it is not, where it grows."""
    one = generate(seed)
    values, others, steps = [], [], []
    for step, size in enumerate((0.0, 0.004, 0.008, 0.012)):
        values += one.log_probs
        others += again(one, other_weights(one.language, seed, size))
        steps += [step] * len(one.log_probs)
    result = compare_rollout(values, others, steps=steps, prompt_lengths=np.tile(one.prompts, 4))
    assert result.cause == "weights"
    assert "grows from" in result.evidence[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_small_gaps_that_move_whole_tokens_are_of_weights(seed):
    """One size of gap, twice: the same for a token wherever it stands, as training makes it, and of any sign."""
    rollout = generate(seed)
    rng = np.random.default_rng(seed)
    biases = rng.normal(0, 0.01, VOCABULARY)
    moved = again(rollout, change=lambda z, sample, place: z + biases)
    scattered = again(rollout, change=lambda z, sample, place: z + rng.normal(0, 0.01, z.shape))
    for recomputed, cause in ((moved, "weights"), (scattered, "numerics")):
        result = compare_rollout(rollout.log_probs, recomputed, generated_tokens=rollout.responses)
        assert result.overall.mean_absolute < 0.02
        assert result.cause == cause


@pytest.mark.parametrize("seed", SEEDS)
def test_coarser_rounding_is_numerics_and_an_error_all_the_same(seed):
    rollout = generate(seed)
    rng = np.random.default_rng(seed)
    recomputed = again(rollout, change=lambda z, sample, place: z + rng.normal(0, 0.06, z.shape))
    result = compare_rollout(rollout.log_probs, recomputed, generated_tokens=rollout.responses)
    assert 0.02 < result.overall.mean_absolute < 0.1
    assert (result.verdict.grade, result.cause) == ("error", "numerics")


def test_padding_or_a_cut_prompt_without_prompt_lengths_is_unclear():
    rollout = generate(1)
    result = compare_rollout(rollout.log_probs, again(rollout, change=padded_attended(rollout, 1)))
    assert result.cause == "unclear"
    assert {one.cause for one in result.candidates[:2]} == {"mask", "truncation"}
    assert "prompt_lengths" in result.evidence[0]


def test_a_mask_that_counts_padding_is_said():
    rollout = generate(2)
    padded = [np.append(v, np.full(40 - len(v), -9.0)) for v in rollout.log_probs]
    result = compare_rollout(padded, again(rollout))
    assert result.cause == "mask"
    assert "40 response tokens in every sample" in result.evidence[0]


def test_estimates_of_k1_k2_and_k3_are_near_the_exact_divergence():
    """KL(generation || training) at every place that was visited, summed over the vocabulary."""
    from markov import log_softmax, logits

    rollout = generate(3, count=400)
    other = other_weights(rollout.language, 3, 0.2)
    exact = []
    for s, p in zip(rollout.sequences, rollout.prompts, strict=True):
        place = np.arange(p, len(s))
        q, t = (log_softmax(logits(lang, s[place - 1], s[place - 2], s[0])) for lang in (rollout.language, other))
        exact.append((np.exp(q) * (q - t)).sum(1))
    exact = float(np.concatenate(exact).mean())
    overall = compare_rollout(rollout.log_probs, again(rollout, other)).overall
    error = overall.spread / np.sqrt(overall.tokens)
    assert abs(overall.k1 - exact) < 5 * error
    assert overall.k3 == pytest.approx(exact, rel=0.15)
    assert overall.k2 == pytest.approx(exact, rel=0.3)
