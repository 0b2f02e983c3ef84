"""Kinds of findings about a collection and its kernel dumps: MSP851 to MSP854."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_kind = partial(Kind, severity=Severity.WARNING)

CHANGED = Kind(
    "MSP851",
    "training changed",
    severity=Severity.ERROR,
    title=Text("the collected training differs", "采集使训练发生变化"),
    means=Text(
        "A training that is collected differs from the same training without collecting.",
        "被采集的训练与不采集时的同一训练不同。",
    ),
    decided=Text(
        "By bitwise comparison of parameters and random generators at each start() and step(); before, the "
        "training is run twice without collecting, and both runs must agree.",
        "依据每次 start() 和 step() 时权重与随机数发生器的逐位内容；先不采集运行两次，且两次必须一致。",
    ),
    causes=(
        Text("a defect of this tool", "本工具的缺陷"),
        Text("training code that depends on hooks or on time", "训练代码依赖 hook 或时间"),
    ),
    look=Text("at the first difference, and report it", "首个差异，并反馈问题"),
    confirm=Text("Run the command again with another level or task.", "换用其他 level 或 task 再次运行。"),
    docs="how-to/collecting/verify-collection.md",
)
NOT_GATHERED = _kind(
    "MSP852",
    "kernel values lost",
    title=Text("values of kernels were not gathered", "算子的值未能收集"),
    means=Text(
        "A file of the kernel dump is missing or cannot be read; the gathered dump lacks its value.",
        "kernel dump 的某个文件缺失或无法读取，收集后的 dump 缺少该值。",
    ),
    decided=Text("By reading every file of the kernel dump.", "读取 kernel dump 的每个文件。"),
    causes=(
        Text("a process that died while writing", "写入时进程退出"),
        Text("an interrupted copy", "复制被中断"),
    ),
    look=Text("at the files in the finding", "所指出的文件"),
    confirm=Text("Dump the iteration again.", "重新 dump 该 iteration。"),
    docs="how-to/collecting/gather.md#contents-of-a-dump",
)
NOT_DUMPED = _kind(
    "MSP853",
    "kernel not dumped",
    title=Text("a kernel was not dumped", "算子未被 dump"),
    means=Text(
        "The settings of the kernel dump have a kernel, or an iteration, without any data.",
        "kernel dump 的设置中指定的算子或 iteration 没有任何数据。",
    ),
    decided=Text(
        "By the names of the dumped kernels and of the kernels in the graphs.",
        "依据已 dump 的算子与计算图中算子的名称。",
    ),
    causes=(
        Text("a name that changed with the graph", "计算图变化导致名称变化"),
        Text("a kernel that did not run", "该算子未执行"),
    ),
    look=Text("at `kernels` and `iteration` of the dump settings", "dump 设置中的 kernels 与 iteration"),
    confirm=Text("Correct the name and dump again.", "修正名称后重新 dump。"),
    docs="how-to/collecting/gather.md#requested-kernels",
)
NOT_IN_GRAPH = _kind(
    "MSP854",
    "kernel not in the graph",
    title=Text("a kernel is not in the graph", "计算图中没有该算子"),
    means=Text(
        "A value of the kernel dump is of a kernel that the text of the graph does not contain.",
        "kernel dump 中某个值所属的算子不在计算图文本中。",
    ),
    decided=Text("By the names of the kernels in the text of the graph.", "依据计算图文本中的算子名称。"),
    causes=(Text("the text of another graph, or of another run", "给出了其他计算图或其他运行的文本"),),
    look=Text("at the file of `--ir`", "--ir 给出的文件"),
    confirm=Text("Give the text of the graph that was dumped.", "给出所 dump 的计算图的文本。"),
    docs="how-to/collecting/code_mapping.md",
)
