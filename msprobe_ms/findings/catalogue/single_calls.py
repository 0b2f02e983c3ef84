"""Kinds of findings about single calls: MSP701 to MSP704."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_executed = partial(
    Kind,
    severity=Severity.ERROR,
    look=Text("at the kernel that runs this call", "执行该调用的算子"),
    confirm=Text(
        "`msprobe repro` writes a script that runs this call alone.", "msprobe repro 可生成单独运行该调用的脚本。"
    ),
)
_perturbed = partial(Kind, severity=Severity.WARNING, docs="how-to/collecting/free-benchmark.md#what-is-reported")

WRONG_OUTPUT = _executed(
    "MSP701",
    "wrong output",
    title=Text("wrong output", "输出错误"),
    means=Text(
        "An output of the call differs from the float64 reference by more than its dtype explains.",
        "该调用的输出与 float64 参考值的差异超出其 dtype 所能解释的范围。",
    ),
    decided=Text(
        "The call is executed on the recorded or drawn inputs, and judged by the standard of its operation.",
        "以记录或生成的输入执行该调用，按该操作的标准判定。",
    ),
    causes=(
        Text("a kernel that is wrong", "算子有误"),
        Text("a kernel that computes in lower precision than its dtype", "算子以低于其 dtype 的精度计算"),
    ),
    docs="how-to/checking/acc_check.md#how-it-is-decided",
)
OTHER_DEVICE = _executed(
    "MSP702",
    "worse than the other device",
    title=Text("worse than the other device", "误差大于另一设备"),
    means=Text(
        "The error of an output against float64 is a multiple of that of the other device.",
        "某个输出相对 float64 的误差是另一设备的数倍。",
    ),
    decided=Text(
        "By the errors that `msprobe acc-check` measured on both devices, and the standard of the operation.",
        "依据 msprobe acc-check 在两种设备上测得的误差以及该操作的标准。",
    ),
    causes=(Text("a kernel that is wrong on this device", "该设备上的算子有误"),),
    docs="how-to/checking/acc_check.md#comparing-two-devices",
)
INCONSISTENT = _perturbed(
    "MSP703",
    "inconsistent",
    title=Text("an output changes too much", "输出变化过大"),
    means=Text(
        "The output of a second run with a slightly changed input differs by more than the limit of the dtype.",
        "以略微改变的输入再次执行时，输出的变化超过该 dtype 的阈值。",
    ),
    decided=Text("By the largest quotient of both outputs, element by element.", "依据两次输出逐元素之比的最大值。"),
    causes=(
        Text("a kernel that is unstable or wrong", "算子不稳定或有误"),
        Text(
            "an operation that amplifies its input, such as a difference of close values",
            "放大输入的操作，例如相近值相减",
        ),
    ),
    look=Text("at the line of the call, and at its dtype", "该调用所在的代码行及其 dtype"),
    confirm=Text(
        "Run again with `pert_mode` `improve_precision`, which shows whether precision is the cause.",
        "将 pert_mode 设为 improve_precision 后重新运行，可判断是否为精度所致。",
    ),
    message=Text(
        "{api} is not consistent [{code}]: max_rel {max_rel:.4g} by {mode}, {stage}, step {step}{place}; further "
        "results of this line are only in {table}",
        "{api} 的结果不一致 [{code}]：{mode}、{stage}、step {step}，max_rel 为 {max_rel:.4g}{place}；该行的其他结果仅写入 {table}",
    ),
)
ILL_CONDITIONED = _perturbed(
    "MSP704",
    "ill-conditioned",
    title=Text("a line amplifies its input", "某行代码放大输入的变化"),
    means=Text(
        "A relative change of the input grows at least tenfold in the output, more than on other lines.",
        "输入的相对变化在输出中至少放大十倍，并高于其他代码行。",
    ),
    decided=Text(
        "By the condition number of each line: relative change of the outputs divided by that of the inputs.",
        "依据每行代码的条件数：输出的相对变化除以输入的相对变化。",
    ),
    causes=(Text("a difference of close values, a division by small ones", "相近值相减，或除以很小的值"),),
    look=Text("at the line of the call", "该调用所在的代码行"),
    confirm=Text("Compute the line in float32 or float64.", "以 float32 或 float64 计算该行。"),
    message={
        "alone": Text(
            "{worst} in step {step} amplifies a relative change of its input {times}{place}",
            "step {step} 的 {worst} 将其输入的相对变化放大{times}{place}",
        ),
        "with peers": Text(
            "{worst} in step {step} amplifies a relative change of its input {times}, where {peers} have "
            "{usual:.2g}{place}",
            "step {step} 的 {worst} 将其输入的相对变化放大{times}，而{peers}为 {usual:.2g}{place}",
        ),
    },
)
