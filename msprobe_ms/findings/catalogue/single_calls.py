"""Kinds of findings about single calls: MSP701."""

from msprobe.findings.kind import Kind, Severity, Text

WRONG_OUTPUT = Kind(
    code="MSP701",
    name="wrong output",
    severity=Severity.ERROR,
    title=Text("wrong output", "输出错误"),
    means=Text(
        "An output of the call is farther from the reference in float64 than its dtype explains.",
        "该调用的输出与 float64 参考值的差异超出其 dtype 所能解释的范围。",
    ),
    decided=Text(
        "The call is executed on the recorded or drawn inputs, and held to the standard of its operation.",
        "以记录或生成的输入执行该调用，按该操作的标准判定。",
    ),
    causes=(
        Text("a kernel that is wrong", "算子有误"),
        Text("a kernel that computes in lower precision than its dtype says", "算子以低于其 dtype 的精度计算"),
    ),
    look=Text("at the kernel that runs this call", "执行该调用的算子"),
    confirm=Text(
        "`msprobe repro` writes a script that runs this call alone.", "msprobe repro 可生成单独运行该调用的脚本。"
    ),
    docs="how-to/checking/acc_check.md#how-it-is-decided",
)

KINDS = (WRONG_OUTPUT,)
