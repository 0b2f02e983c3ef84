"""Kinds of findings of a comparison of RL flows: MSP501 and MSP502."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_kind = partial(Kind, severity=Severity.ERROR, docs="how-to/comparing/compare-flow.md#the-first-difference")

STAGE = _kind(
    "MSP501",
    "stage differs",
    title=Text("a stage differs", "阶段不同"),
    means=Text(
        "The dump of a stage (generation, reference, reward, training) is the first difference in the flow.",
        "某个阶段（生成、reference、奖励、训练）的 dump 是流程中首个出现差异的部分。",
    ),
    decided=Text(
        "Stages and keys are compared in the order of the flow; dumps are compared like any two dumps.",
        "按流程顺序检查各阶段与关键数据；dump 的比对方式与普通 dump 相同。",
    ),
    causes=(
        Text("weights that were not transferred from the trainer", "权重未从训练侧同步"),
        Text("a call of the stage that computes a different result", "该阶段的某个调用计算结果不同"),
    ),
    look=Text("at the line after `why`", "why 之后的一行"),
    confirm=Text(
        "The line after `why` has the first wrong call of the stage, or what to collect.",
        "why 之后的一行给出该阶段首个出错的调用，或需要采集的内容。",
    ),
)
KEY = _kind(
    "MSP502",
    "key differs",
    title=Text("a key datum differs", "关键数据不同"),
    means=Text(
        "A value that is passed between stages (responses, log probabilities, rewards, advantages) is the first "
        "difference.",
        "阶段之间传递的值（responses、log prob、奖励、优势）首先出现差异。",
    ),
    decided=Text(
        "By its values, while everything earlier in the flow agrees.", "流程中此前的一切均一致，而其数值不同。"
    ),
    causes=(
        Text("sampling with a different seed or temperature", "采样的随机种子或温度不同"),
        Text("host code between stages", "阶段之间的主机侧代码"),
    ),
    look=Text("at the host code that computes it, and at the previous stage", "产生它的主机侧代码以及之前的阶段"),
    confirm=Text("Collect the stage that computes it.", "采集产生该数据的阶段。"),
)
