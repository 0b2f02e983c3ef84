"""Kinds of findings of a comparison of two checkpoints: MSP611 and MSP612."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_kind = partial(Kind, docs="how-to/comparing/config_check.md#the-answer")

PARAMETER = _kind(
    "MSP611",
    "checkpoint parameter differs",
    severity=Severity.ERROR,
    title=Text("a parameter differs", "权重不同"),
    means=Text(
        "A parameter has different values, shapes or dtypes in the two checkpoints.",
        "两个 checkpoint 中的同一权重数值、形状或 dtype 不同。",
    ),
    decided=Text(
        "By the l2 distance and the cosine, within the limits of the dtype or of `--standard`.",
        "依据 l2 距离与余弦，阈值取自 dtype 或 --standard。",
    ),
    causes=(
        Text("checkpoints of different steps", "不同 step 的 checkpoint"),
        Text("a conversion that transposes or casts", "转换时发生转置或类型转换"),
    ),
    look=Text("at the step and the conversion of both checkpoints", "两个 checkpoint 的 step 与转换过程"),
    confirm=Text(
        "Convert the checkpoint again and compare it with the original.", "重新转换 checkpoint，并与原文件比对。"
    ),
)
ONE_SIDE = _kind(
    "MSP612",
    "checkpoint parameter on one side",
    severity=Severity.WARNING,
    title=Text("a parameter is on one side only", "权重仅存在于一侧"),
    means=Text(
        "A parameter of one checkpoint has no counterpart in the other.", "一个 checkpoint 中的权重在另一侧没有对应项。"
    ),
    decided=Text(
        "Names are matched, then layers and values, then the rules of `--data-mapping`.",
        "先匹配名称，再匹配层与数值，然后是 --data-mapping 的规则。",
    ),
    causes=(
        Text("names that differ too much", "名称差异过大"),
        Text("an incomplete checkpoint", "checkpoint 不完整"),
    ),
    look=Text("at the names of both sides", "两侧的名称"),
    confirm=Text("Give the names with `--data-mapping`.", "用 --data-mapping 给出名称对应关系。"),
)
