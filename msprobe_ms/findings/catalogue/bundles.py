"""The kind of finding of `msprobe bundle`: MSP651."""

from msprobe.findings.kind import Kind, Severity, Text

OTHER_VERDICTS = Kind(
    "MSP651",
    "bundle differs",
    severity=Severity.WARNING,
    title=Text("a bundle gives other verdicts", "bundle 的结论不同"),
    means=Text(
        "The comparison of the packed dumps gives other verdicts than that of the original ones.",
        "对打包后的 dump 比对，得到的结论与原 dump 不同。",
    ),
    decided=Text("Both are compared, and the verdict of each pair.", "两者都做比对，并逐对比较结论。"),
    causes=(
        Text("tensors that are left out", "未打包张量"),
        Text("elements that are permuted", "元素被打乱"),
    ),
    look=Text("at the number of tensors that are left out", "未打包的张量个数"),
    confirm=Text("Pack again with `--tensors`.", "加上 --tensors 重新打包。"),
    docs="how-to/comparing/bundle.md#the-command",
)
