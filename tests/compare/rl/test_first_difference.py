"""Two roots of an RL flow: the first key or stage that differs, the call in it, or what to collect."""

import json

import numpy as np
import pytest
from openpyxl import load_workbook

pytestmark = [pytest.mark.slow, pytest.mark.part(3)]

GENERATE, REFERENCE, UPDATE = "actor_generate_sequences", "reference_compute_log_prob", "actor_update"
BEGINS = "the difference starts here: the keys prompts and responses that the stage reads agree"


def roles(whole):
    """(step, key or stage) -> role, of everything that was walked past."""
    return {(at["step"], at.get("key") or at["stage"]): at["role"] for at in whole["walk"]}


@pytest.mark.parametrize("way", ["save", "graph_save"])
def test_two_equal_runs_have_no_difference(way, roots, compare):
    for root in roots:
        getattr(root.configure(dump_path=str(root.path)), way)()
        root.dump(REFERENCE)
    code, lines, whole = compare()
    assert code == 0
    assert lines[-1] == "no difference: 15 pairs judged, 0 unjudged"  # 8 keys; 3 calls of 2 tensors and a parameter
    assert (whole["is_clean"], whole["first_difference"], whole["missing"]) == (True, None, [])


def test_the_stage_in_which_it_begins_is_named_with_its_call_and_its_key(roots, changed, compare, summary):
    target, golden = roots
    for step in range(3):
        golden.save(step)
        off = {"ref_log_prob": changed("ref_log_prob", (1, 2), -1.75)} if step else {}
        target.save(step, **off)
    golden.dump(REFERENCE, 1)
    target.dump(REFERENCE, 1, made=(2.0, 3.5, 4.5))
    code, lines, whole = compare()
    assert code == 1
    result = summary(lines)
    message, call = result["first difference"], result["first wrong call"]
    assert message.startswith(
        f"step 1, rank 0, stage {REFERENCE}, call Cell.norm.LayerNorm.forward.0, seen in key ref_log"
    )
    assert "key ref_log_prob (error: 1 of 6 elements" in message
    assert message.endswith("; first at [1, 2])")
    assert result["why"] == BEGINS
    assert call.startswith("Cell.norm.LayerNorm.forward.0 in the root: computes differently: all inputs")
    assert call.endswith("(/train/policy.py:7)")
    assert lines[-1] == f"first wrong call: {call}"
    assert whole["first_wrong"][0]["name"] == "Cell.norm.LayerNorm.forward.0"
    first = whole["first_difference"]
    assert (first["step"], first["rank"], first["stage"], first["keys"]) == (1, 0, REFERENCE, ["ref_log_prob"])
    assert (first["why"], first["then"]) == (BEGINS, None)
    assert roles(whole)[1, "ref_log_prob"] == "received"
    assert roles(whole)[1, "advantages"] == "agrees"


def test_positions_of_the_two_paths_mean_target_and_golden(roots, changed, compare):
    roots[0].configure(seed=1).save(loss=changed("loss", (), 0.25))
    roots[1].configure(seed=2).save()
    code, lines, _ = compare(positional=True)
    assert code == 1
    assert "  seed: 1, golden 2 (random numbers)" in lines


@pytest.mark.parametrize(
    ("key", "switch"),
    [("ref_log_prob", "reference_dump"), ("old_log_prob", "actor_train_dump"), ("loss", "actor_train_dump")],
)
def test_a_stage_without_a_dump_is_to_be_collected(key, switch, roots, changed, compare, summary):
    target, golden = roots
    for step in range(3):
        golden.save(step)
        target.save(step, **({key: changed(key, ..., -0.75)} if step == 2 else {}))
    code, lines, whole = compare()
    assert code == 1
    result = summary(lines)
    assert result["collect it"].startswith(f"set {switch}: true, step_start: 2, step_end: 2; then run both again")
    assert result["why"].endswith(" produces it, and it has no dump of step 2")
    assert whole["first_difference"]["collect"] == {switch: True, "step_start": 2, "step_end": 2}
    assert whole["first_wrong"] == []
    too = "its weights may be the cause: actor_train_dump: true, step_start: 1 collects the earlier update in the same"
    assert (too in result["collect it"]) == (switch == "actor_train_dump")


def test_values_are_the_critics(roots, compare, summary):
    values = np.array([0.5, 0.25], np.float32)
    roots[0].save(values=values)
    roots[1].save(values=2 * values)
    result = summary(compare()[1])
    assert result["why"].endswith("critic_compute_values produces it, and it has no dump of step 0")
    assert result["collect it"].startswith("set critic_train_dump: true")


def test_generation_is_to_be_collected_at_the_first_token_that_differs(roots, compare, summary):
    """The first element is token 2 of sample 0; the first token is 1, of sample 1."""
    responses = np.array([[5, 6, 0], [8, 0, 10]], np.int32)
    roots[0].save(responses=responses)
    roots[1].save()
    _, lines, whole = compare()
    result = summary(lines)
    assert result["first difference"].endswith(
        "key responses (error: Integers and booleans must be equal: 2 of 6 elements differ, the largest difference is "
        "9, at [1, 1]; first at [0, 2])"
    )
    assert result["why"] == f"the key prompts before it agrees; {GENERATE} produces it, and it has no dump of step 0"
    assert result["collect it"] == (
        "set actor_infer_dump: true, token_range_start: 1, token_range_end: 1, step_start: 0, step_end: 0; then run "
        "both again"
    )
    assert whole["first_difference"]["collect"]["token_range_start"] == 1
    assert roles(whole)[0, "prompts"] == "agrees"


def test_a_longer_response_differs_at_the_first_token_that_only_it_has(roots, compare):
    longer = np.array([[5, 6, 7, 1], [8, 9, 10, 1]], np.int32)
    roots[0].save(responses=longer)
    roots[1].save()
    _, lines, _ = compare()
    assert "token_range_start: 3, token_range_end: 3" in lines[-1]


def test_a_dump_that_agrees_leaves_the_host_code_after_it(roots, changed, compare, summary):
    target, golden = roots
    golden.save().dump(REFERENCE)
    target.save(ref_log_prob=changed("ref_log_prob", (0, 0), -1.5)).dump(REFERENCE)
    code, lines, whole = compare()
    assert code == 1
    result = summary(lines)
    assert result["why"] == (
        f"the keys prompts and responses before it agree; no call can be located: the dump of {REFERENCE} agrees "
        "in this step (as far as statistics tell), so the difference comes from host code after the stage"
    )
    assert result["look at"].startswith("how the log probabilities of the response tokens")
    assert result["look at"].endswith(
        f"if this code runs before debugger_stop, stage_configs: {{{REFERENCE}: {{level: mix}}}} records its calls"
    )
    assert whole["first_difference"]["collect"] is None
    assert "first wrong call" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("prompts", "loader and tokenizer"),
        ("rewards", "reward functions"),
        ("advantages", "the estimate of advantages"),
    ],
)
def test_what_no_stage_makes_is_of_the_host(key, words, roots, changed, compare, summary):
    roots[0].save(**{key: changed(key, ..., 3)})
    roots[1].save()
    _, lines, _ = compare()
    result = summary(lines)
    assert result["why"].endswith(f"no call can be located: no stage produces {key}")
    assert words in result["look at"]


def test_a_stage_that_was_given_what_differs_carries_on(roots, changed, compare, summary):
    """The responses differ, so the reference's dump and its log probabilities do."""
    target, golden = roots
    golden.save().dump(REFERENCE)
    target.save(
        responses=changed("responses", (0, 1), 60),
        ref_log_prob=changed("ref_log_prob", (0, 1), -9.0),
        loss=changed("loss", (), 0.75),
    ).dump(REFERENCE, inputs=7.0, made=(8.0, 9.0, 10.0))
    _, lines, whole = compare()
    result = summary(lines)
    assert result["first difference"].startswith("step 0, rank 0, key responses (error")
    assert "actor_infer_dump: true" in result["collect it"]
    assert any(
        f"stage {REFERENCE}" in line and "it propagates a difference, after differences in responses" in line
        for line in lines
    )
    assert roles(whole) | {(0, REFERENCE): "received", (0, "loss"): "received"} == roles(whole)


def test_inputs_that_differ_although_the_keys_agree_are_of_the_host_code_before(roots, changed, compare, summary):
    target, golden = roots
    golden.save().dump(REFERENCE)
    target.save(ref_log_prob=changed("ref_log_prob", (0, 1), -9.0)).dump(REFERENCE, inputs=7.0, made=(8.0, 9.0, 10.0))
    _, lines, _ = compare()
    result = summary(lines)
    assert result["why"] == (
        "the stage received different input, although the keys prompts and responses that the stage reads agree: "
        "the difference comes from host code before the stage"
    )
    assert "masks, positions and padding" in result["look at"]
    assert ": run inputs differ: " in result["first wrong call"]


@pytest.mark.parametrize(
    ("step", "when"), [(0, "since they were loaded or initialized"), (1, "since an earlier update")]
)
def test_weights_that_differ_are_said(step, when, roots, changed, compare, summary):
    target, golden = roots
    for number in range(2):
        golden.save(number)
        target.save(number, **({"old_log_prob": changed("old_log_prob", (0, 0), -3.0)} if number >= step else {}))
    golden.dump("actor_compute_log_prob", step)
    target.dump("actor_compute_log_prob", step, weight=11.5, made=(2.0, 3.5, 4.5))
    _, lines, whole = compare()
    result = summary(lines)
    switches = {"actor_train_dump": True, "step_start": 0, "step_end": 0}
    assert result["why"] == f"the difference starts before this stage: the weights of the actor differ {when}"
    assert whole["first_difference"]["collect"] == (switches if step else None)
    assert result["collect it"] == (
        "the update of step 0, which was not dumped on both sides; set actor_train_dump: true, step_start: 0, "
        "step_end: 0; then run both again"
        if step
        else ""
    )
    assert ("checkpoints" in result["look at"]) == (not step)
    assert ": parameters differ: " in result["first wrong call"]


def test_weights_that_differ_in_the_first_step_that_was_collected_may_be_of_an_update(roots, compare, summary):
    """Step 3 alone was collected: nobody knows what step 2 did."""
    roots[0].dump("actor_compute_log_prob", 3, weight=11.5, made=(2.0, 3.5, 4.5))
    roots[1].dump("actor_compute_log_prob", 3)
    result = summary(compare()[1])
    assert result["why"].endswith("differ since they were loaded or initialized, or since an earlier update")
    assert "set actor_train_dump: true, step_start: 2, step_end: 2" in result["collect it"]


def test_weights_that_differ_in_two_stages_of_a_model_begin_once(roots, compare):
    target, golden = roots
    for root, wrong in ((target, {"weight": 11.5, "made": (2.0, 3.5, 4.5)}), (golden, {})):
        root.save(0).save(1).dump(GENERATE, 1, **wrong).dump("actor_compute_log_prob", 1, **wrong)
    _, lines, whole = compare()
    assert roles(whole)[1, GENERATE] == "begins"
    assert roles(whole)[1, "actor_compute_log_prob"] == "received"
    assert not [line for line in lines if line.startswith("another difference: ")]


@pytest.mark.always
@pytest.mark.parametrize(("differing", "role"), [("advantages", "received"), ("ref_log_prob", "begins")])
def test_returns_that_were_not_saved_follow_advantages(differing, role, roots, changed, compare):
    """The critic's update reads values, which agree, and returns, which the code that makes advantages makes."""
    values, loss = np.array([0.5, 0.25], np.float32), np.array([0.5], np.float32)
    roots[0].save(**{differing: changed(differing, 0, 3.0)}, values=values, critic_loss=2 * loss)
    roots[1].save(values=values, critic_loss=loss)
    _, _, whole = compare()
    assert roles(whole)[0, "critic_loss"] == role


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({}, "and those of actor_compute_log_prob in this step do not: the new weights do not reach this stage"),
        ({"weight": 11.5, "made": (2.0, 3.5, 4.5)}, "although actor_update of step 0 agrees"),
    ],
)
def test_weights_that_differ_in_one_stage_only_did_not_reach_it(other, words, roots, compare, summary):
    """Generation has other weights in step 1; whether the actor's other stage has them too says which it is."""
    for at, root in enumerate(roots):
        wrong = {} if at else {"weight": 11.5, "made": (2.0, 3.5, 4.5)}
        root.save(0).dump(UPDATE, 0).save(1).dump(GENERATE, 1, **wrong)
        root.dump("actor_compute_log_prob", 1, **({} if at else other))
    _, lines, _ = compare()
    result = summary(lines)
    assert result["first difference"].startswith(f"step 1, rank 0, stage {GENERATE}, call ")
    assert result["why"].startswith(
        f"the difference starts before this stage: the weights of the actor differ, {words}"
    )
    assert ("how weights are transferred to" in result["look at"]) == (not other)
    assert ("optimizer" in result["look at"]) == bool(other)
    assert ": parameters differ: " in result["first wrong call"]


def test_without_the_keys_it_reads_a_stage_says_so(roots, compare, summary):
    roots[0].dump(UPDATE, 2, made=(2.0, 3.5, 4.5))
    roots[1].dump(UPDATE, 2)
    code, lines, _ = compare()
    assert code == 1
    result = summary(lines)
    assert result["why"] == "the difference starts here, as far as the dump shows: all inputs of the call agrees"
    assert result["first wrong call"].startswith("Cell.norm.LayerNorm.forward.0")


def test_a_stage_that_shows_in_none_of_its_keys_says_so(roots, compare, summary):
    roots[0].save().dump(REFERENCE, made=(2.0, 3.5, 4.5))
    roots[1].save().dump(REFERENCE)
    assert summary(compare()[1])["why"] == f"{BEGINS}; none of the keys produced by the stage shows it"


def test_a_later_dump_of_the_stage_names_its_call_beside_what_to_collect(roots, changed, compare, summary):
    target, golden = roots
    for step in range(2):
        golden.save(step)
        target.save(step, ref_log_prob=changed("ref_log_prob", (0, 0), -1.5))
    golden.dump(REFERENCE, 1)
    target.dump(REFERENCE, 1, made=(2.0, 3.5, 4.5))
    _, lines, _ = compare()
    result = summary(lines)
    assert result["collect it"] == "set reference_dump: true, step_start: 0, step_end: 0; then run both again"
    assert "; according to its dump of step 1, first wrong call: Cell.norm.LayerNorm.forward.0" in result["why"]


def test_a_second_beginning_is_told_behind_the_answer(roots, changed, compare, summary):
    target, golden = roots
    for step in range(2):
        golden.save(step)
        target.save(step, ref_log_prob=changed("ref_log_prob", (0, 0), -1.5), rewards=changed("rewards", 1, 0.5))
    _, lines, whole = compare()
    assert "key ref_log_prob" in summary(lines)["first difference"]
    assert lines[-1].startswith("another difference: step 0, rank 0, key rewards (error")
    assert lines[-1].endswith("; again in step 1")
    assert lines[-2].startswith("collect it: ")
    assert roles(whole)[0, "advantages"] == "agrees"
    assert compare("--top", "0")[1][-1] == "another difference: 1 more, in the JSON file"


def test_a_difference_within_tolerance_is_named_and_passes(roots, changed, compare, summary):
    target, golden = roots
    for step in range(2):
        golden.save(step)
        near = {"ref_log_prob": np.nextafter(golden_ref(), np.float32(0))}
        target.save(step, **near, **({"loss": changed("loss", (), 0.75)} if step else {}))
    code, lines, whole = compare()
    assert code == 1
    assert "key ref_log_prob (pass: 6 of 6 elements differ within tolerance, by" in summary(lines)["first difference"]
    (near,) = [line for line in lines if line.startswith("it is within tolerance; ")]
    assert near.startswith("it is within tolerance; the first beyond it: step 1, rank 0, key loss (error")
    assert roles(whole)[1, "ref_log_prob"] == "agrees"


def test_only_differences_within_tolerance_exit_with_0(roots, compare):
    roots[0].save(ref_log_prob=np.nextafter(golden_ref(), np.float32(0)))
    roots[1].save()
    code, lines, _ = compare()
    assert code == 0
    assert lines[-1] == "it is within tolerance; nothing is beyond it"


def golden_ref():
    return np.array([[-1.0, -2.0, -0.5], [-0.25, -4.0, -1.5]], np.float32)


def test_log_prob_alone_is_what_the_actor_computes_before_the_update(roots, changed, compare):
    keys = {name: None for name in ("old_log_prob", "loss", "advantages")}
    roots[0].save(**keys, log_prob=changed("log_prob", (0, 0), -7.0))
    roots[1].save(**keys)
    assert "; actor_compute_log_prob produces it, and it has no dump of step 0" in compare()[1][-2]


def test_the_earliest_place_in_the_flow_counts_over_all_ranks(roots, changed, compare, summary):
    target, golden = roots
    for rank in range(2):
        golden.save(rank=rank)
    target.save(rank=0, loss=changed("loss", (), 0.25))
    target.save(rank=1, ref_log_prob=changed("ref_log_prob", (0, 0), -1.5))
    assert "step 0, rank 1, key ref_log_prob" in summary(compare()[1])["first difference"]


def test_an_unknown_key_stands_where_it_was_saved(roots, compare, summary):
    """`kv_norm` is saved between ref_log_prob and old_log_prob, and differs before old_log_prob does."""
    order = ("prompts", "responses", "ref_log_prob", "kv_norm", "old_log_prob")
    keys = {name: np.arange(3, dtype=np.float32) + at for at, name in enumerate(order)}
    roots[1].graph_save(keys=keys)
    roots[0].graph_save(keys=keys, kv_norm=keys["kv_norm"] + 1, old_log_prob=keys["old_log_prob"] + 1)
    _, lines, whole = compare()
    assert "key kv_norm" in summary(lines)["first difference"]
    assert summary(lines)["why"].endswith("unknown; it was saved after ref_log_prob and before old_log_prob")
    walked = [at["key"] for at in whole["walk"]]
    assert walked == list(order)


def test_tables_of_every_form(roots, changed, compare, tmp_path):
    roots[0].configure(lr=0.1, run_name="a").save(loss=changed("loss", (), 0.25)).dump(UPDATE)
    roots[1].configure(lr=0.2, run_name="b").save().dump(UPDATE)
    out = tmp_path / "out"
    for form in ("xlsx", "csv", "json"):
        compare("--format", form)
        assert (out / "key_data" / f"loss.{form}").is_file()
        assert len(list(out.glob(f"compare_flow_keys_*.{form}"))) == 1
        assert len(list((out / UPDATE / "step0").glob(f"compare_result_rank0_*.{form}"))) == 1
    head, *rows = load_workbook(next(out.glob("compare_flow_keys_*.xlsx"))).active.values
    assert head[:6] == ("step", "rank", "key", "made by", "Verdict", "first difference")
    assert [row[2] for row in rows] == list(("prompts", "responses", "ref_log_prob", "old_log_prob", "rewards",
                                             "advantages", "log_prob", "loss"))  # fmt: skip
    assert [row[4] for row in rows] == ["pass"] * 7 + ["error"]
    assert rows[-1][3] == UPDATE
    settings = json.loads(next(out.glob("compare_flow_configurations_*.json")).read_text())
    assert [(row["setting"], row["target"], row["golden"], row["changes"]) for row in settings] == [
        ("lr", "0.1", "0.2", "the update"),
        ("run_name", '"a"', '"b"', "place or time"),
    ]


def test_limits_of_the_user_apply_to_the_dumps_of_a_flow_and_are_counted(roots, compare):
    for root, off in zip(roots, (0.5, 0.0), strict=True):
        root.save().dump("actor_update", made=(2.0, 3.0, 4.0 + off))
    code, lines, whole = compare("--ignore", "Cell.head")
    assert code == 0
    assert "your limits: 1 pairs ignored, 0 passed by your tolerance (--ignore Cell.head)" in lines
    assert lines[-1].startswith("no difference but what your limits excuse: ")
    assert lines[-1].endswith("; 1 pairs ignored, 0 passed by your tolerance")
    assert whole["user_limits"] == {"ignored": 1, "tolerated": 0, "ignored_calls": 0}


def test_where_stages_differ_by_rounding_the_answer_says_so(roots, compare):
    for root, off in zip(roots, (2**-22, 0.0), strict=True):  # one unit in the last place of 3
        root.save().dump("actor_update", made=(2.0, 3.0 + off, 4.0))
    code, lines, _ = compare()
    assert code == 0
    assert lines[-1].startswith("no difference beyond rounding: 15 pairs judged, 0 unjudged, largest ")


@pytest.mark.parametrize(("step", "cause"), [(1, "more_data"), (0, None)])
def test_a_known_cause_is_left_out_where_the_stages_show_a_cause_before_it(step, cause, roots, compare):
    """Weights that differ in the only step may be explained by its data; after a stage that agrees, they are not."""
    for root, off in zip(roots, (0.5, 0.0), strict=True):
        if not step:
            root.dump("actor_update", 0)
        root.dump("actor_update", 1, weight=11.0 + off)
    _, lines, whole = compare()
    assert whole["first_wrong"][0]["kind"] == "parameters differ"
    assert (whole["try"] and whole["try"]["cause"]) == cause
    assert lines[-1].startswith("Try: ") == (cause is not None)
