"""The kind of finding of `msprobe bundle`: MSP651."""

from msprobe.findings.kind import Kind, Severity, Text

OTHER_VERDICTS = Kind(
    "MSP651",
    "bundle differs",
    severity=Severity.WARNING,
    title=Text("a bundle has different verdicts", "bundle 的结论不同"),
    means=Text(
        "The comparison of the packed dumps has other verdicts than the comparison of the original dumps.",
        "对打包后的 dump 比对，得到的结论与原 dump 不同。",
    ),
    decided=Text(
        "Both comparisons are made, and the verdicts of each pair are compared.", "两者都做比对，并逐对比较结论。"
    ),
    causes=(
        Text("tensors that are not packed", "未打包张量"),
        Text("permuted elements", "元素被打乱"),
    ),
    look=Text("at the number of tensors that are not packed", "未打包的张量个数"),
    confirm=Text("Pack again with `--tensors`.", "加上 --tensors 重新打包。"),
    docs="how-to/comparing/bundle.md#the-command",
)
