"""The one table of exemptions: differences that are excused, or whose pair has no verdict, although they were found.

`TABLE` has a row for each, in the order in which they are decided. A stage of the comparison calls the predicates of
its rows in this order, and the first row that applies decides. To add an exemption, write its predicate in a module of
the stage, and its row, with a test, here.

python -m msprobe.compare.core.exemptions     prints the table
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any

from msprobe.findings.kind import Text

from .reason import Cause, Why
from .relation import Relation


class Stage(Enum):
    """The stages of a comparison that decide exemptions, in their order; each with the predicate that it calls."""

    MATCH = "match"
    """Records of a pair of calls that were matched by their meaning, and that only one side has. The predicate receives
    the record (`OneSidedRecord`), and returns a `Partnerless` or None."""
    PAIR = "pair"
    """A pair of records. The predicate receives the `PairJudge`, the pair, the name of its call and its row, and
    returns a reason or None."""
    UPDATES = "updates"
    """Parameters after the first step, by their updates. The predicate receives an `UpdateVerdict`, and returns a
    reason or None."""
    COMPARISON = "comparison"
    """All pairs of records, after each was judged. The predicate receives the `Comparison` with the exemptions so far,
    and returns reasons by row, or by place if its scope is a call."""
    STRUCTURE = "structure"
    """Calls and arguments of one side only, by the dataflow. The predicate receives `DataflowFacts`, and returns
    reasons by row or place."""
    DATAFLOW = "dataflow"
    """Pairs of records, by their states along the dataflow. The predicate receives `DataflowFacts`, and returns tuples
    of reasons by row."""
    LIMITS = "limits"
    """The limits of the user. The predicate receives the `Comparison`, the `UserLimits`, a row and the names that match
    it, and returns a reason or None."""
    LOCATE = "locate"
    """Records of one side, in the search for the first wrong call. The predicate receives the `Comparison` and a row,
    and returns a reason or None; the record then begins no difference."""
    END = "end"
    """After the first wrong call was searched. The predicate receives the `Updates` and the `Comparison`, and returns
    reasons by row."""


class Scope(Enum):
    """The object of an exemption."""

    RECORD = "record"
    CALL = "call"
    """A call of one side, with all of its records."""
    PARAMETER = "parameter"


class Outcome(Enum):
    """The verdict of an exempt pair of records."""

    PASS = "pass"
    EXEMPT = "exempt"
    """Unjudged, and the comparison is clean nevertheless."""
    OPEN = "open"
    """Unjudged, and the comparison is not clean."""


_EVERY = frozenset(Relation)
_SAME_KERNELS = frozenset(relation for relation in Relation if not relation.has_other_kernels)
_OTHER_KERNELS = _EVERY - _SAME_KERNELS
_SAME_NAMES = frozenset(relation for relation in Relation if not relation.has_other_names)


@dataclass(frozen=True, eq=False)
class Exemption:
    """A row of the table.

    name : identifies the row.
    means : the differences that are excused, and why.
    stage : the stage that decides it.
    scope : the object that is exempt.
    relations : the relations between the frameworks of the two sides for which it applies.
    cause : the cause of the missing verdict; None if the pair passes.
    reasons : the kinds of reasons that the predicate gives.
    predicate : the function that decides, as `module:name` below `msprobe.compare`.
    test : a test that fails without the row.
    """

    name: str
    means: Text
    stage: Stage
    scope: Scope
    relations: frozenset[Relation]
    cause: Cause | None
    reasons: tuple[Why, ...]
    predicate: str
    test: str

    @property
    def outcome(self) -> Outcome:
        """The verdict of a pair to which the row applies."""
        if self.cause is None:
            return Outcome.PASS
        return Outcome.EXEMPT if self.cause.is_exempt else Outcome.OPEN

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The predicate. Its module is imported on first use, since most comparisons need few of them."""
        module, _, name = self.predicate.partition(":")
        found: Callable[..., Any] = attrgetter(name)(import_module(f"msprobe.compare.{module}"))
        return found


TABLE = (
    Exemption(
        "value-in-other-form",
        Text(
            "An argument that one side receives as one value and the other as a list of equal values.",
            "一侧以单个值、另一侧以相等值的列表传入的参数。",
        ),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.INTERNAL,
        (Why.ONE_VALUE_EQUAL,),
        "match.records:value_in_other_form",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[value-in-other-form]",
    ),
    Exemption(
        "none",
        Text("A record that is None, which has no effect.", "值为 None 的记录，没有作用。"),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.INTERNAL,
        (Why.NULL,),
        "match.records:null",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[none]",
    ),
    Exemption(
        "gradient-of-inner-node",
        Text(
            "A gradient of an inner node of autograd, which only one framework records.",
            "autograd 内部节点的梯度，只有一个框架会记录。",
        ),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.NO_COUNTERPART,
        (Why.INNER_NODE,),
        "match.records:gradient_of_inner_node",
        "tests/compare/locate/test_exemptions.py::test_the_gradient_of_an_inner_node_needs_no_counterpart",
    ),
    Exemption(
        "additional-output",
        Text("An output that the function of the other framework does not return.", "另一框架的函数不返回的输出。"),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.INTERNAL,
        (Why.NO_RESULT, Why.NO_RESULT_OF_CALL),
        "match.records:additional_output",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[output]",
    ),
    Exemption(
        "running-statistic",
        Text(
            "A running statistic that MindSpore keeps among the parameters and PyTorch does not.",
            "MindSpore 作为参数保存而 PyTorch 不保存为参数的滑动统计量。",
        ),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.NO_COUNTERPART,
        (Why.BUFFER,),
        "match.records:running_statistic",
        "tests/compare/test_frameworks_tensors.py::TestLayersOfTheFrameworks::test_statistics_that_pytorch_keeps_in_buffers_are_no_difference",
    ),
    Exemption(
        "gradient-of-additional-output",
        Text(
            "The incoming gradient of an output that the other framework does not return.",
            "另一框架不返回的输出所对应的传入梯度。",
        ),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.INTERNAL,
        (Why.NO_RESULT_OF_GRADIENT,),
        "match.records:gradient_of_additional_output",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[gradient-of-output]",
    ),
    Exemption(
        "default",
        Text(
            "An argument that one side passes with the value that is the default of the other.",
            "一侧传入、且其值等于另一侧默认值的参数。",
        ),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.INTERNAL,
        (Why.DEFAULT,),
        "match.records:default",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[default]",
    ),
    Exemption(
        "argument-without-counterpart",
        Text(
            "An argument that the function of the other framework does not have, or receives in another way.",
            "另一框架的函数没有、或以其他方式接收的参数。",
        ),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.INTERNAL,
        (Why.OTHER_WAY, Why.NO_ARGUMENT),
        "match.records:argument_without_counterpart",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[argument-without-counterpart]",
    ),
    Exemption(
        "argument-of-one-side",
        Text("A non-tensor argument that only one side passes.", "只有一侧传入的非张量参数。"),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.NO_COUNTERPART,
        (Why.ONE_ARGUMENT,),
        "match.records:argument_of_one_side",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[argument-of-one-side]",
    ),
    Exemption(
        "cell-argument",
        Text(
            "An argument of a cell that only one side passes: the calls inside the cell are compared.",
            "只有一侧传给 cell 的参数：cell 内部的调用会被比对。",
        ),
        Stage.MATCH,
        Scope.RECORD,
        _EVERY,
        Cause.NO_COUNTERPART,
        (Why.CELL_ARGUMENT,),
        "match.records:cell_argument",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[cell-argument]",
    ),
    Exemption(
        "content-without-meaning",
        Text(
            "Uninitialized memory, a workspace, or the previous content of a tensor that is overwritten.",
            "未初始化的内存、算子的工作区，或将被覆盖的张量的原有内容。",
        ),
        Stage.PAIR,
        Scope.RECORD,
        _EVERY,
        Cause.UNUSED,
        (Why.UNINITIALISED, Why.WORKSPACE, Why.FILLED, Why.PLACEHOLDER),
        "judge.pairs:content_without_meaning",
        "tests/compare/judge/test_pairs.py::test_uninitialised_memory_is_never_judged",
    ),
    Exemption(
        "unwritten-memory",
        Text("A tensor that the dump marks as memory that was not written.", "dump 标记为尚未写入内存的张量。"),
        Stage.PAIR,
        Scope.RECORD,
        _EVERY,
        Cause.UNUSED,
        (Why.UNWRITTEN,),
        "judge.pairs:unwritten_memory",
        "tests/compare/locate/test_exemptions.py::test_memory_that_was_not_written_is_not_judged",
    ),
    Exemption(
        "sum-of-parts",
        Text(
            "A bias of one side that is the sum of several of the other: the results are compared.",
            "一侧的偏置是另一侧多个偏置之和：比对的是其结果。",
        ),
        Stage.PAIR,
        Scope.RECORD,
        _EVERY,
        Cause.NO_COUNTERPART,
        (Why.SUM_OF_PARTS,),
        "judge.pairs:sum_of_parts",
        "tests/compare/locate/test_other_structure.py::test_a_fused_layer_without_consequence_is_no_finding[True]",
    ),
    Exemption(
        "drift",
        Text(
            "A parameter whose update agrees, or that differs by no more than correct runs drift.",
            "更新量与另一侧一致、或差异不超过正确训练之间漂移的参数。",
        ),
        Stage.UPDATES,
        Scope.PARAMETER,
        _EVERY,
        None,
        (
            Why.DRIFT_SETTINGS,
            Why.DRIFT_GRADIENTS,
            Why.DRIFT_UPDATES,
            Why.DRIFT_STATISTICS,
            Why.DRIFT_ONLY,
            Why.DRIFT_ROUNDED,
            Why.DRIFT_ROUNDING,
            Why.DRIFT_EARLIER,
        ),
        "updates.explained:drift",
        "tests/compare/updates/test_dumps.py::test_a_drift_passes_and_says_why",
    ),
    Exemption(
        "other-level",
        Text("A call that the level of the other side does not record.", "另一侧的采集级别不记录的调用。"),
        Stage.COMPARISON,
        Scope.CALL,
        _EVERY,
        Cause.OTHER_LEVEL,
        (Why.OTHER_LEVEL,),
        "locate.exemptions:of_other_level",
        "tests/compare/judge/test_verdict.py::test_calls_that_the_other_level_leaves_out_are_exempt[L0]",
    ),
    Exemption(
        "lost-on-both-sides",
        Text(
            "A value of a function that neither side could collect, if a later forward call is compared.",
            "两侧都无法采集的函数的值，且之后有前向调用被比对。",
        ),
        Stage.COMPARISON,
        Scope.RECORD,
        _EVERY,
        Cause.LOST_WITHIN,
        (Why.LOST_ON_BOTH_SIDES,),
        "locate.exemptions:lost_on_both_sides",
        "tests/compare/locate/test_exemptions.py::test_a_value_that_neither_side_could_collect_is_exempt_if_a_later_result_is_compared[order0]",
    ),
    Exemption(
        "unneeded-gradient",
        Text(
            "A gradient that only one side computes, and that is zero or reaches no parameter.",
            "只有一侧计算、且全为零或不通向任何参数的梯度。",
        ),
        Stage.COMPARISON,
        Scope.RECORD,
        _SAME_NAMES,
        Cause.UNNEEDED_GRADIENT,
        (Why.ZEROS, Why.UNNEEDED),
        "locate.exemptions:unneeded_gradients",
        "tests/compare/locate/test_gradients.py::test_a_gradient_on_one_side_is_exempt_where_nobody_needs_it",
    ),
    Exemption(
        "summed-gradient",
        Text(
            "A call's own gradient against an accumulated one, if the latter is compared at the producer.",
            "一侧为调用自身的梯度、另一侧为累积梯度，而后者作为产生者的传入梯度被比对。",
        ),
        Stage.COMPARISON,
        Scope.RECORD,
        _SAME_NAMES,
        Cause.SUMMED,
        (Why.SUM_COMPARED,),
        "locate.exemptions:summed_gradients",
        "tests/compare/judge/test_verdict.py::test_a_sum_that_is_compared_as_an_incoming_gradient_is_exempt[0.0]",
    ),
    Exemption(
        "rewritten-call",
        Text(
            "A call of one side only, if the results that are computed from it agree, or if nothing uses it.",
            "只有一侧执行的调用，且由其计算的结果一致，或无人使用它。",
        ),
        Stage.STRUCTURE,
        Scope.CALL,
        _SAME_KERNELS,
        Cause.REWRITTEN,
        (Why.PASSED_THROUGH, Why.OF_FORWARD, Why.COMPARED_LATER, Why.NOBODY_USES),
        "noise.verdicts:rewritten_calls",
        "tests/compare/locate/test_find.py::test_another_call_in_its_place_that_gives_the_same_is_no_finding",
    ),
    Exemption(
        "argument-without-effect",
        Text(
            "An argument that only one side passes, if the outputs of the call agree.",
            "只有一侧传入的参数，且该调用的输出一致。",
        ),
        Stage.STRUCTURE,
        Scope.RECORD,
        _SAME_KERNELS,
        Cause.REWRITTEN,
        (Why.NO_EFFECT,),
        "noise.verdicts:arguments_without_effect",
        "tests/compare/locate/test_find.py::test_an_argument_on_one_side_only_is_no_finding_where_both_return_the_same[statistics]",
    ),
    Exemption(
        "function-without-counterpart",
        Text(
            "A call of a function that the other framework does not have, if its results are compared later.",
            "另一框架没有对应函数的调用，且由其计算的结果被比对。",
        ),
        Stage.STRUCTURE,
        Scope.CALL,
        _OTHER_KERNELS,
        Cause.INTERNAL,
        (Why.NO_COUNTERPART,),
        "noise.verdicts:functions_without_counterpart",
        "tests/compare/test_frameworks.py::test_what_one_framework_alone_needs_is_an_internal_detail",
    ),
    Exemption(
        "call-compared-later",
        Text(
            "A call of one side only, if its results are compared later, or if it returns its input.",
            "只有一侧执行的调用，且由其计算的结果被比对，或它返回其输入。",
        ),
        Stage.STRUCTURE,
        Scope.CALL,
        _OTHER_KERNELS,
        Cause.INTERNAL,
        (Why.PASSED_THROUGH, Why.OF_FORWARD, Why.COMPARED_LATER),
        "noise.verdicts:calls_compared_later",
        "tests/compare/test_frameworks.py::test_a_result_of_one_framework_that_is_compared_with_nothing_is_no_internal_detail",
    ),
    Exemption(
        "uncompared-call",
        Text(
            "A call of one side only, from which nothing is computed that is compared; not the last call.",
            "只有一侧执行、且没有由其计算的结果被比对的调用；最后一个调用除外。",
        ),
        Stage.STRUCTURE,
        Scope.CALL,
        _OTHER_KERNELS,
        Cause.NO_COUNTERPART,
        (Why.NOT_COMPARED, Why.NOBODY_USES, Why.NO_COUNTERPART, Why.LAST_ONLY),
        "noise.verdicts:uncompared_calls",
        "tests/compare/test_frameworks.py::test_a_result_of_one_framework_that_is_compared_with_nothing_is_no_internal_detail",
    ),
    Exemption(
        "part-of-a-sum",
        Text(
            "A call's own gradient against an accumulated one: the sum is compared at the producer.",
            "一侧为调用自身的梯度、另一侧为累积梯度：其和在产生者处比对。",
        ),
        Stage.STRUCTURE,
        Scope.RECORD,
        _OTHER_KERNELS,
        Cause.INTERNAL,
        (Why.COMPARED_LATER,),
        "noise.verdicts:parts_of_sums",
        "tests/compare/locate/test_exemptions.py::test_of_two_frameworks_a_part_of_a_sum_of_gradients_is_exempt",
    ),
    Exemption(
        "argument-in-other-way",
        Text(
            "An argument that only one side passes, if the outputs of the call do not diverge.",
            "只有一侧传入的参数，且该调用的输出没有分歧。",
        ),
        Stage.STRUCTURE,
        Scope.RECORD,
        _OTHER_KERNELS,
        Cause.INTERNAL,
        (Why.OTHER_WAY,),
        "noise.verdicts:arguments_in_other_way",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[argument-in-other-way]",
    ),
    Exemption(
        "unused-output",
        Text(
            "An output or gradient that only one side has, and that no recorded call uses.",
            "只有一侧具有、且没有已记录的调用使用的输出或梯度。",
        ),
        Stage.STRUCTURE,
        Scope.RECORD,
        _OTHER_KERNELS,
        Cause.NO_COUNTERPART,
        (Why.NOBODY_USES,),
        "noise.verdicts:unused_outputs",
        "tests/compare/match/test_one_sided_records.py::test_a_record_of_one_side_is_exempt_for_a_reason[unused-output]",
    ),
    Exemption(
        "wide-bound",
        Text(
            "A difference that the inputs explain, if they explain more than 10 % of the output.",
            "可由输入解释的差异，但输入可解释输出的 10 % 以上。",
        ),
        Stage.DATAFLOW,
        Scope.RECORD,
        _EVERY,
        Cause.WIDE_BOUND,
        (Why.WIDE_BOUND, Why.NOISE_BEFORE),
        "noise.verdicts:wide_bounds",
        "tests/compare/noise/test_leaves.py::test_a_verdict_does_not_rest_on_a_bound_beyond_a_tenth",
    ),
    Exemption(
        "noise",
        Text(
            "A difference that the inputs of the call and its rounding explain.", "可由调用的输入及其舍入解释的差异。"
        ),
        Stage.DATAFLOW,
        Scope.RECORD,
        _EVERY,
        None,
        (Why.NOISE, Why.NOISE_AMPLIFIED, Why.NOISE_OF_STATISTICS, Why.LAW_KEPT, Why.NOISE_BEFORE),
        "noise.verdicts:within_noise",
        "tests/compare/noise/test_noise_statistics.py::test_noise_is_no_difference[bf16]",
    ),
    Exemption(
        "argument-with-unknown-effect",
        Text(
            "An argument that differs, if noise is larger than its effect would be.",
            "有差异的参数，但噪声大于其可能的影响。",
        ),
        Stage.DATAFLOW,
        Scope.RECORD,
        _EVERY,
        Cause.UNSHOWN,
        (Why.UNSHOWN,),
        "noise.verdicts:effects_below_noise",
        "tests/compare/noise/test_leaves.py::test_an_argument_without_a_known_effect_is_listed_as_open",
    ),
    Exemption(
        "no-consequence",
        Text(
            "A difference that dies out: the results that are computed from it agree, or nothing uses it.",
            "逐渐消失的差异：由其计算的结果一致，或无人使用它。",
        ),
        Stage.DATAFLOW,
        Scope.RECORD,
        _EVERY,
        Cause.HARMLESS,
        (Why.DIES_OUT,),
        "noise.verdicts:without_consequence",
        "tests/compare/noise/test_leaves.py::test_a_harmless_difference_is_listed_as_such[statistics]",
    ),
    Exemption(
        "other-step-of-a-block",
        Text(
            "An input of a cell that is another value of the block on the other side; the calls inside are compared.",
            "两侧 cell 的输入是块内不同的值；cell 内部的调用会被比对。",
        ),
        Stage.DATAFLOW,
        Scope.RECORD,
        _EVERY,
        Cause.NO_COUNTERPART,
        (Why.OTHER_STEP,),
        "noise.verdicts:other_steps",
        "tests/compare/locate/test_exemptions.py::test_the_argument_of_a_block_is_exempt_if_the_calls_inside_are_compared",
    ),
    Exemption(
        "gradient-of-unknown-node",
        Text(
            "A gradient that may be that of an inner node of autograd on one side.",
            "一侧可能为 autograd 内部节点的梯度。",
        ),
        Stage.DATAFLOW,
        Scope.RECORD,
        _EVERY,
        Cause.INNER_NODE,
        (Why.INNER_NODE,),
        "noise.verdicts:of_inner_nodes",
        "tests/compare/test_frameworks.py::TestReferenceOfPyTorch::test_gradients_are_paired_by_shape_and_what_is_no_gradient_of_an_argument_is_not_judged[True]",
    ),
    Exemption(
        "ignored",
        Text("A record that the user ignores (`--ignore`).", "用户忽略的记录（`--ignore`）。"),
        Stage.LIMITS,
        Scope.RECORD,
        _EVERY,
        Cause.IGNORED,
        (Why.IGNORED,),
        "locate.user_limits:ignored",
        "tests/compare/locate/test_user_limits.py::test_a_name_of_one_record_leaves_the_others",
    ),
    Exemption(
        "tolerated",
        Text(
            "A difference within the tolerances of the user (`--atol`, `--rtol`).",
            "在用户指定容差内的差异（`--atol`、`--rtol`）。",
        ),
        Stage.LIMITS,
        Scope.RECORD,
        _EVERY,
        None,
        (Why.USER_TOLERANCE,),
        "locate.user_limits:tolerated",
        "tests/compare/locate/test_user_limits.py::test_a_tolerance_passes_what_is_within_it_and_nothing_else[options0-0-tensor]",
    ),
    Exemption(
        "ignored-call",
        Text(
            "A call of one side only that the user ignores (`--ignore`).",
            "用户忽略的、只有一侧执行的调用（`--ignore`）。",
        ),
        Stage.LIMITS,
        Scope.CALL,
        _EVERY,
        Cause.IGNORED,
        (Why.IGNORED,),
        "locate.user_limits:ignored",
        "tests/compare/locate/test_find.py::test_an_ignored_call_on_one_side_only_is_not_listed_as_structure",
    ),
    Exemption(
        "passed-on-one-side",
        Text(
            "A non-tensor argument that PyTorch or its API on MindSpore passes and the other has by default.",
            "PyTorch 与 MindSpore 上的 PyTorch API 中一侧传入、另一侧取默认值的非张量参数。",
        ),
        Stage.LOCATE,
        Scope.RECORD,
        frozenset({Relation.OTHER_KERNELS}),
        Cause.UNMATCHED,
        (Why.ONE_SIDE,),
        "locate.cause:passed_on_one_side",
        "tests/compare/match/test_mindtorch.py::test_an_argument_that_one_side_writes_out_is_no_fault",
    ),
    Exemption(
        "drift-of-earlier-steps",
        Text(
            "A parameter that differs by drift, if the step before was not compared.",
            "差异不超过漂移的参数，且之前的 step 未被比对。",
        ),
        Stage.END,
        Scope.PARAMETER,
        _EVERY,
        Cause.EARLIER,
        (Why.DRIFT_EARLIER,),
        "updates.explained:Updates.drift_of_earlier_steps",
        "tests/compare/updates/test_step_alone.py::test_a_later_step_alone_whose_parameters_drifted_is_not_equal[statistics]",
    ),
)
"""All exemptions, in the order in which they are decided."""


@cache
def exemptions_of(stage: Stage, relation: Relation) -> tuple[Exemption, ...]:
    """Return the rows of a stage that apply to a relation between the frameworks, in the order of the table."""
    return tuple(row for row in TABLE if row.stage is stage and relation in row.relations)


@cache
def cause_by_reason(stage: Stage) -> dict[Why, Cause]:
    """Return the cause of each kind of reason that a stage gives."""
    return {why: row.cause for row in TABLE if row.stage is stage and row.cause for why in row.reasons}


def lines() -> Iterator[str]:
    """Yield the table as text."""
    for number, row in enumerate(TABLE, 1):
        relations = (
            "every" if row.relations == _EVERY else ", ".join(each.name for each in Relation if each in row.relations)
        )
        cause = "" if row.cause is None else f" ({row.cause.name})"
        yield f"{number:2} {row.name}: {row.means.english}"
        yield f"   {row.stage.value}, {row.scope.value}, relations: {relations}; {row.outcome.value}{cause}"
        yield f"   reasons: {', '.join(why.name for why in row.reasons)}"
        yield f"   {row.predicate}, {row.test}"


if __name__ == "__main__":
    print("\n".join(lines()))
