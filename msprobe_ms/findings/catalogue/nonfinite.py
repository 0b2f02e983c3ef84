"""Kinds of findings about NaN and infinities: MSP201 to MSP217.

The messages are those of a collection that checks each call; `msprobe overflow-check` reports the values that it found.
"""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_BY_AMOUNTS = Text(
    "By the number of NaN, inf and -inf in the statistics of the records, or in the tensors if these were saved.",
    "依据记录的统计量或保存的张量：NaN、inf 与 -inf 的元素个数。",
)
_recorded = partial(Kind, severity=Severity.ERROR, docs="how-to/checking/overflow_check.md#what-is-named")
_watched = partial(Kind, severity=Severity.ERROR, docs="how-to/collecting/watching.md")

MADE = _recorded(
    "MSP201",
    "made",
    title=Text("computes NaN or infinities from finite inputs", "输入正常而产生 NaN 或无穷"),
    means=Text(
        "All inputs of the call are finite and an output is not: the call computed it.",
        "该调用的所有输入均为有限值，而输出不是：由该调用计算产生。",
    ),
    decided=_BY_AMOUNTS,
    causes=(
        Text(
            "a division by zero, or a logarithm or root of a number that is not positive",
            "除以零，或对非正数取对数、开方",
        ),
        Text(
            "values too large for the dtype: the maximum of float16 is 65504",
            "数值超出 dtype 的范围：float16 最大为 65504",
        ),
        Text("a loss scale that is too large", "loss scale 过大"),
    ),
    look=Text(
        "at the inputs of the call: a division by 0, a logarithm or root of a number that is not positive, or "
        "values too large for the dtype",
        "该调用的输入：除以 0、对非正数取对数或开方，或数值超出 dtype 范围",
    ),
    confirm=Text(
        "Look at maximum and minimum of the inputs; run the call alone with `msprobe repro`.",
        "查看输入的最大值与最小值；用 msprobe repro 单独运行该调用。",
    ),
    message=Text("the inputs are finite, {place} is not", "输入均为有限值，而 {place} 不是"),
)
OF_INFINITIES = _recorded(
    "MSP202",
    "made of infinities",
    title=Text("computes NaN or infinities from the infinities of a mask", "由掩码中的无穷产生 NaN 或无穷"),
    means=Text(
        "The inputs contain only -inf, like a mask, and an output contains NaN or infinities.",
        "输入只含掩码那样的 -inf，而输出含 NaN 或无穷。",
    ),
    decided=_BY_AMOUNTS,
    causes=(
        Text("a row that is completely masked, so that a softmax divides by zero", "整行被掩码遮蔽，softmax 除以零"),
        Text("-inf minus -inf, or -inf times 0", "-inf 减 -inf，或 -inf 乘 0"),
    ),
    look=Text(
        "at the mask: a row that is completely masked, or -inf minus -inf; a large finite value instead of -inf "
        "avoids both",
        "掩码：整行被遮蔽，或 -inf 减 -inf；用较大的有限值代替 -inf 可避免两者",
    ),
    confirm=Text(
        "Count the rows that are completely masked; a large finite value instead of -inf avoids both.",
        "统计整行被遮蔽的行数；用较大的有限值代替 -inf 可避免。",
    ),
    message=Text(
        "the inputs contain -inf but no NaN, {place} contains NaN or inf",
        "输入含 -inf 而不含 NaN，{place} 含 NaN 或 inf",
    ),
)
ARGUMENT = _recorded(
    "MSP203",
    "argument",
    title=Text("an argument is not finite", "参数值为非有限值"),
    means=Text(
        "The program passes NaN or an infinity as an argument, as in `x * float('nan')`.",
        "程序将 NaN 或无穷作为参数传入，例如 x * float('nan')。",
    ),
    decided=Text("By the recorded value of the argument.", "依据参数的记录值。"),
    causes=(
        Text("a scale or temperature that is computed in Python", "在 Python 中计算的缩放系数或温度"),
        Text("an infinity as the default value", "默认值为无穷"),
    ),
    look=Text(
        "at the line that makes the call, and at the origin of this argument", "发起该调用的代码行，以及该参数的来源"
    ),
    confirm=Text("Print the argument at the line of the call.", "在调用所在行打印该参数。"),
    message=Text(
        "a number in the arguments is not finite, and neither is {place}", "参数中有非有限值，{place} 也含非有限值"
    ),
)
EXCHANGE = _recorded(
    "MSP204",
    "exchange",
    title=Text("a collective computes values that are not finite", "集合通信产生非有限值"),
    means=Text(
        "The inputs of all ranks to a collective are finite, and its result is not.",
        "各 rank 送入集合通信的值均为有限值，而结果不是。",
    ),
    decided=Text(
        "The calls of one collective are matched over the ranks, and all inputs are examined together.",
        "跨 rank 匹配同一次集合通信的调用，并综合查看全部输入。",
    ),
    causes=(
        Text("a sum that is too large for the dtype of the collective", "求和结果超出集合通信 dtype 的范围"),
        Text("a buffer that is used again while it is sent", "发送过程中缓冲区被复用"),
    ),
    look=Text(
        "at the magnitude of the values that are summed over the ranks, and at the dtype of the collective",
        "跨卡求和的数值大小，以及集合通信的 dtype",
    ),
    confirm=Text("Reduce in float32, or divide before the sum.", "改用 float32 归约，或在求和前先做除法。"),
)
PARAMETER = _recorded(
    "MSP205",
    "parameter",
    title=Text("a parameter is not finite", "权重含非有限值"),
    means=Text(
        "A parameter is not finite before the first recorded call that could have changed it.",
        "在任何已记录调用之前，权重已含非有限值。",
    ),
    decided=Text(
        "By the parameters at the start of the step; the previous step shows whether its update is the cause.",
        "依据 step 开始时的权重；若有前一个 step，可判断是否由其更新造成。",
    ),
    causes=(
        Text("an update with a gradient that is not finite, or with eps 0", "以非有限梯度或 eps 为 0 进行的更新"),
        Text("a learning rate that is too large", "学习率过大"),
        Text("a checkpoint that contains it", "checkpoint 本身含有"),
    ),
    look=Text(
        "at the update before this step: its gradients, the learning rate and eps; or at the loaded checkpoint",
        "该 step 之前的更新：梯度、学习率与 eps；或加载的内容",
    ),
    confirm=Text(
        "Collect the previous step with gradients; look at the checkpoint.",
        "采集前一个 step 及其梯度；检查 checkpoint。",
    ),
)
LEAF = _recorded(
    "MSP206",
    "leaf",
    title=Text("an input of the run is not finite", "外部输入含非有限值"),
    means=Text(
        "An input that is not the result of an operation is not finite: the batch, a buffer, or a constant.",
        "并非由运算产生的输入含非有限值：batch、buffer 或常量。",
    ),
    decided=Text("By the origin that the collector recorded with the input.", "依据采集时为该输入记录的来源。"),
    causes=(
        Text("bad samples, or a normalization that divides by zero", "异常样本，或归一化时除以零"),
        Text("a buffer that was never set", "从未赋值的 buffer"),
    ),
    look=Text(
        "at the data and their preprocessing, and at the buffers and constants of the model",
        "数据及其处理，以及模型的 buffer 与常量",
    ),
    confirm=Text("Check the batch before the model is called.", "在调用模型之前检查 batch。"),
)
UNINITIALISED = _recorded(
    "MSP207",
    "uninitialised",
    title=Text("reads memory that was never written", "读取了未初始化的内存"),
    means=Text(
        "The call reads memory that `empty()` returned, before anything was written to it.",
        "该调用读取了 empty() 返回后尚未写入的内存。",
    ),
    decided=Text(
        "By the dataflow: no recorded call wrote to the tensor between `empty()` and this call.",
        "依据数据流：在 empty() 与该调用之间，没有已记录的调用写入该张量。",
    ),
    causes=(
        Text("a buffer that is only partly filled", "缓冲区只填充了一部分"),
        Text("a kernel that does not write all of its output", "算子没有写满输出"),
    ),
    look=Text(
        "at the call of empty() that allocated this memory: fill it, or write all of it before it is read",
        "分配该内存的 empty() 调用：先填充，或在读取前全部写入",
    ),
    confirm=Text("Replace `empty` by `zeros` and run again.", "将 empty 换成 zeros 后重新运行。"),
)
UNRECORDED = _recorded(
    "MSP208",
    "unrecorded",
    severity=Severity.WARNING,
    title=Text("received from a call that was not recorded", "来自未记录的调用"),
    means=Text(
        "An input is not finite, and no recorded call returned it: its origin was not recorded.",
        "输入含非有限值，且不是由已记录的调用产生：来源不在记录之内。",
    ),
    decided=Text("By the dataflow of the records.", "依据记录的数据流。"),
    causes=(
        Text("a list or scope that excludes calls", "采集的 list 或 scope 排除了部分调用"),
        Text("NumPy, or a collective whose handle is not waited for", "NumPy 运算，或未等待的集合通信句柄"),
    ),
    look=Text(
        "at the code before this call; values in it can be saved explicitly (docs: saving)",
        "该调用之前的代码；其中的值可手动保存（参见文档 saving）",
    ),
    confirm=Text("Collect at level mix without a list.", "以级别 mix 且不设 list 重新采集。"),
)
MISSING_RANK = _recorded(
    "MSP209",
    "missing rank",
    severity=Severity.WARNING,
    title=Text("received from a rank that is not in the dump", "来自未采集的 rank"),
    means=Text(
        "The value was received by a collective or a message from a rank that is not in the dump.",
        "该值经集合通信或点对点消息来自 dump 中没有的 rank。",
    ),
    decided=Text(
        "By the group of the collective, and the ranks whose dumps were given.",
        "依据集合通信的通信组，以及给出 dump 的 rank。",
    ),
    causes=(Text("a dump of some ranks only", "只采集了部分 rank"),),
    look=Text("at the ranks that are missing: collect all ranks of the step", "缺失的 rank：请采集该 step 的所有 rank"),
    confirm=Text("Also collect the ranks that the finding lists.", "补充采集所列的 rank。"),
)
INPUTS_UNKNOWN = _recorded(
    "MSP210",
    "inputs unknown",
    severity=Severity.WARNING,
    title=Text("outputs are not finite, inputs are unknown", "输出含非有限值，输入未知"),
    means=Text(
        "An output is not finite, and the inputs were not collected: the call may have received it.",
        "输出含非有限值，而输入未被采集：也可能是由输入带入的。",
    ),
    decided=_BY_AMOUNTS,
    causes=(Text("a collection of outputs only", "只采集了输出"),),
    look=Text("at the inputs, which were not collected: collect them too", "采集时遗漏的内容：请同时采集输入"),
    confirm=Text("Collect inputs too: `data_mode` with `input`.", "同时采集输入：data_mode 中加入 input。"),
)
ENTERED = _watched(
    "MSP211",
    "entered",
    title=Text("non-finite values entered from outside the collected cells", "非有限值来自未采集的代码"),
    means=Text(
        "An input or an incoming gradient is not finite, and no recorded call returned it.",
        "输入或传入的梯度含非有限值，且不是由已记录的调用产生。",
    ),
    decided=Text("While the training runs, at the first such call.", "在训练过程中，于首个此类调用处判定。"),
    causes=(
        Text("the batch, or code outside of the collected cells", "batch，或未采集的代码"),
        Text("a loss scale that is too large, for gradients", "对梯度而言，loss scale 过大"),
    ),
    look=Text("at the batch, and at the code before this call", "batch 以及该调用之前的代码"),
    confirm=Text(
        "Collect at level mix, so that operations outside of cells are recorded.",
        "以级别 mix 采集，使 Cell 之外的运算也被记录。",
    ),
    message={
        "calls": Text(
            "non-finite values entered from outside the collected calls: {place} is not finite and is not an output "
            "of a recorded call",
            "非有限值来自未采集的调用：{place} 含非有限值，且不是已记录调用的输出",
        ),
        "cells": Text(
            "non-finite values entered from outside the collected cells: {place} is not finite and is not an output "
            "of a recorded call",
            "非有限值来自未采集的 Cell：{place} 含非有限值，且不是已记录调用的输出",
        ),
    },
)
RECEIVED = _watched(
    "MSP212",
    "received",
    title=Text("a parameter is not finite, and no recorded call returned it", "输入含非有限值且无调用产生"),
    means=Text(
        "A parameter is not finite, and no recorded call changed it.", "权重含非有限值，且不是由已记录的调用造成。"
    ),
    decided=Text(
        "While the training runs, at the first call that uses it.", "在训练过程中，于首个使用它的调用处判定。"
    ),
    causes=(
        Text("the update of the previous step", "前一个 step 的更新"),
        Text("a checkpoint that contains it", "checkpoint 本身含有"),
    ),
    look=Text("at the update before this step, or at the loaded checkpoint", "该 step 之前的更新，或加载的内容"),
    confirm=Text("Collect the previous step with gradients.", "采集前一个 step 及其梯度。"),
    message=Text(
        "{place} is not finite and is not an output of a recorded call", "{place} 含非有限值，且不是已记录调用的输出"
    ),
)
NAN = _watched(
    "MSP213",
    "nan",
    title=Text("contains NaN", "含 NaN"),
    means=Text("A record of the call contains NaN.", "该调用的某条记录含 NaN。"),
    decided=Text("While the training runs, by the statistics of the record.", "在训练过程中，依据记录的统计量判定。"),
    causes=(Text("as for MSP201, in this call or an earlier one", "同 MSP201，出在此处或之前的调用"),),
    look=Text("at the calls that were written before it", "之前写入的调用"),
    confirm=Text(
        "Look at the calls that were written before it; `msprobe overflow-check` finds where it begins.",
        "查看之前写入的调用；msprobe overflow-check 可指出起点。",
    ),
    message=Text("{place} contains NaN{predecessors}", "{place} 含 NaN{predecessors}"),
)
INFINITY = _watched(
    "MSP214",
    "inf",
    title=Text("contains an infinity", "含无穷"),
    means=Text("A record of the call contains an infinity.", "该调用的某条记录含无穷。"),
    decided=Text("While the training runs, by the statistics of the record.", "在训练过程中，依据记录的统计量判定。"),
    causes=(Text("as for MSP201; or a mask, whose -inf is intended", "同 MSP201；或为有意写入 -inf 的掩码"),),
    look=Text("at the calls that were written before it", "之前写入的调用"),
    confirm=Text(
        "Look at the calls that were written before it; `msprobe overflow-check` finds where it begins.",
        "查看之前写入的调用；msprobe overflow-check 可指出起点。",
    ),
    message=Text("{place} contains infinities{predecessors}", "{place} 含无穷{predecessors}"),
)
JUMP = _watched(
    "MSP215",
    "jump",
    severity=Severity.WARNING,
    title=Text("a norm jumps between steps", "范数在相邻 step 间跳变"),
    means=Text(
        "A norm is many times that of the same call in the previous step, or a fraction of it.",
        "某个范数是前一个 step 同一调用的许多倍，或仅为其一小部分。",
    ),
    decided=Text("By the factor that the configuration gives.", "按配置中给出的倍数判定。"),
    causes=(
        Text("a batch unlike the others", "与众不同的 batch"),
        Text("a learning rate that is too large, or a warm-up that has ended", "学习率过大，或预热结束"),
        Text("a rank that temporarily computes wrong values", "某个 rank 短暂计算出错"),
    ),
    look=Text("at the batch of this step, and at the learning rate", "该 step 的 batch 与学习率"),
    confirm=Text(
        "Run the step again from the previous checkpoint; compare both with `msprobe compare`.",
        "从之前的 checkpoint 重新运行该 step，并用 msprobe compare 比对两次结果。",
    ),
    message=Text(
        "the norm of {place} is {value:.6g}, in the previous step {golden:.6g}{predecessors}",
        "{place} 的范数为 {value:.6g}，前一个 step 为 {golden:.6g}{predecessors}",
    ),
)
DIGEST = _watched(
    "MSP216",
    "digest",
    title=Text("the digest differs from the golden dump", "摘要与标杆不同"),
    means=Text(
        "The digest of a record differs from that of the golden dump: at least one bit differs.",
        "某条记录的摘要与标杆 dump 不同：至少有一位不同。",
    ),
    decided=Text("While the training runs, record by record.", "在训练过程中逐条比对。"),
    causes=(
        Text("the first call that computes a different result", "首个计算结果不同的调用"),
        Text("kernels whose results are not bitwise reproducible", "算子两次运行的结果不逐位相同"),
    ),
    look=Text("at the call, and at its inputs in the golden dump", "该调用及其在标杆 dump 中的输入"),
    confirm=Text(
        "Compare two runs of one version first; if their digests also differ, collect statistics.",
        "先比对同一版本的两次运行：若摘要也不同，改为采集统计量。",
    ),
    message=Text(
        "the digest of {place} is {value}, in the golden dump {golden}{predecessors}",
        "{place} 的摘要为 {value}，标杆 dump 中为 {golden}{predecessors}",
    ),
)
EXCEPTION = _watched(
    "MSP217",
    "exception",
    title=Text("raised an exception", "抛出异常"),
    means=Text(
        "The call raised an exception; the records before it are written.",
        "该调用抛出异常；在此之前的记录已写入。",
    ),
    decided=Text("By the exception of the training.", "依据训练抛出的异常。"),
    causes=(
        Text("shapes or dtypes that do not fit", "shape 或 dtype 不匹配"),
        Text("insufficient memory", "内存或显存耗尽"),
    ),
    look=Text("at the traceback, and at the calls that were running", "调用栈以及正在执行的调用"),
    confirm=Text(
        "See Python's traceback and the running calls in the finding.", "查看其中的 Python 调用栈与正在执行的调用。"
    ),
    message=Text("raised {exception}{inside}{predecessors}", "抛出 {exception}{inside}{predecessors}"),
)
