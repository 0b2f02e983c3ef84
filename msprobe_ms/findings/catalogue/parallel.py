"""Kinds of findings while the ranks of a model are merged: MSP151 to MSP167."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_merging = partial(
    Kind,
    severity=Severity.WARNING,
    decided=Text(
        "The values of the tensor parallel ranks are compared with each other, with the other side, and with the "
        "way in which the class of the layer is split.",
        "将各张量并行 rank 的值相互比较，并与另一侧以及该层类的切分方式对照。",
    ),
    look=Text("at merge.json, which lists every place", "merge.json，其中列出每一处"),
    confirm=Text(
        "Compare the ranks of one layout alone, or collect the exchange.", "只比对同一布局的 rank，或采集该通信。"
    ),
    docs="how-to/comparing/layouts.md#what-is-merged-and-how",
)

REPLICAS_DIFFER = _merging(
    "MSP151",
    "replicas differ",
    severity=Severity.ERROR,
    title=Text("replicas differ", "副本不一致"),
    means=Text("Ranks that should have equal values have different values.", "本应持有相同值的 rank 持有不同的值。"),
    causes=(Text("an exchange that is missing, or random numbers of one rank", "缺少通信，或某个 rank 的随机数不同"),),
    message=Text(
        "{n} that should be equal on the tensor parallel ranks differ, first {first}, by {apart}",
        "{n}在张量并行的各 rank 上本应一致而不同，首个为 {first}，相差 {apart}",
    ),
)
PART_OF_A_SUM = _merging(
    "MSP152",
    "part of a sum",
    title=Text("a part of a sum was not merged", "部分和未合并"),
    means=Text(
        "The values differ among the ranks in a place that is not split: either parts of a sum, or copies that "
        "diverged; the reduction was not recorded.",
        "未切分的位置上各 rank 的值不同：可能是部分和，也可能是错误的副本；求和的通信未被采集。",
    ),
    causes=(Text("the collection leaves out collectives", "采集时未包含集合通信"),),
    message=Text(
        "{n} differ among tensor parallel ranks and were not merged, first {first}: parts of a sum whose "
        "reduction was not recorded",
        "{n}在张量并行的各 rank 上不同，未合并，首个为 {first}：它们是求和的各部分，但没有已记录的通信将其相加",
    ),
)
NOT_KNOWN = _merging(
    "MSP153",
    "split not known",
    title=Text("the split of a value is not known", "切分方式未知"),
    means=Text(
        "The values differ among the ranks, and neither the other side nor the class of the layer shows whether "
        "these are parts of a tensor or of a sum.",
        "各 rank 的值不同，另一侧与该层的类都无法说明它们是张量的切片还是部分和。",
    ),
    causes=(Text("a user-defined layer", "用户自定义的层"),),
    message=Text(
        "{n} were not merged, first {first}: neither the golden nor the class of the layer shows whether the "
        "ranks have parts of a tensor or of a sum",
        "{n}未合并，首个为 {first}：由标杆和层的类型都看不出各 rank 的值是张量的切片还是求和的一部分",
    ),
)
INPUTS_NOT_MERGED = _merging(
    "MSP154",
    "inputs not merged",
    title=Text("the inputs of a function were not merged", "函数的输入未合并"),
    means=Text(
        "Some arguments of a function could not be merged, so its result was not merged either.",
        "函数的部分参数无法合并，因而其结果也未合并。",
    ),
    causes=(Text("an argument whose split is not known", "某个参数的切分方式未知"),),
)
SIDE_BY_SIDE = _merging(
    "MSP155",
    "ranks side by side",
    severity=Severity.NOTE,
    title=Text("the values of all ranks are stacked", "各 rank 的值并列显示"),
    means=Text(
        "The values differ among the ranks, and it is unknown whether these are parts of a tensor or of a sum; they "
        "are stacked along a new first axis.",
        "各 rank 的值不同，无法判断是切片还是部分和；沿新的第一个轴堆叠。",
    ),
    causes=(Text("a graph of one dump, without a golden", "只画一份 dump，没有标杆"),),
    message=Text(
        "{n} of the ranks are stacked, first {first}: without a golden it is unknown whether they are parts of a "
        "tensor or of a sum",
        "{n}按 rank 并列展示，首个为 {first}：没有标杆，看不出它们是张量的切片还是求和的一部分",
    ),
)
VALUES_DIFFER = _merging(
    "MSP156",
    "values of ranks differ",
    title=Text("the ranks have different values", "各 rank 的值不同"),
    means=Text(
        "An argument that is not a tensor differs among the tensor parallel ranks.",
        "某个非张量参数在各张量并行 rank 上不同。",
    ),
    causes=(Text("an argument that depends on the rank", "该参数取决于 rank"),),
    message=Text(
        "{n} that are not tensors differ among tensor parallel ranks and were omitted, first {first}",
        "{n}不是张量，且在张量并行的各 rank 上不同，已略去，首个为 {first}",
    ),
)
STRUCTURES_DIFFER = _merging(
    "MSP157",
    "structures of ranks differ",
    title=Text("the ranks have different arguments or results", "各 rank 的参数或结果结构不同"),
    means=Text(
        "The tensor parallel ranks have different structures of arguments or results in a call.",
        "某个调用的参数或结果结构在各 rank 上不同。",
    ),
    causes=(Text("code that depends on the rank", "取决于 rank 的代码"),),
    message=Text(
        "{n} have different structures on the tensor parallel ranks and were omitted, first {first}",
        "{n}在张量并行的各 rank 上结构不同，已略去，首个为 {first}",
    ),
)
OF_THE_LAYOUT = _merging(
    "MSP158",
    "call of the layout",
    severity=Severity.NOTE,
    title=Text("a call belongs to the layout", "属于并行布局的调用"),
    means=Text(
        "A function that only this side calls, in a parallel layer or where the ranks exchange data; it is omitted.",
        "仅一侧调用的函数，位于并行层内或 rank 交换数据之处；不参与比对。",
    ),
    causes=(Text("none; the other layout does not need the call", "没有问题；另一布局不需要该调用"),),
)
NOT_ON_ALL_RANKS = _merging(
    "MSP159",
    "not on all ranks",
    title=Text("a call is not on all ranks", "并非所有 rank 都有的调用"),
    means=Text(
        "Not every tensor parallel rank made this call; it is omitted.",
        "并非每个张量并行 rank 都执行了该调用；不参与比对。",
    ),
    causes=(Text("code that depends on the rank", "取决于 rank 的代码"),),
    message=Text(
        "{n} are not on all tensor parallel ranks and were omitted, first {first}",
        "{n}并非在张量并行的每个 rank 上都有，已略去，首个为 {first}",
    ),
)
ON_SEVERAL_STAGES = _merging(
    "MSP160",
    "on several stages",
    severity=Severity.NOTE,
    title=Text("a call is on several pipeline stages", "多个流水线阶段都有的调用"),
    means=Text(
        "Several pipeline stages made this call; the call of the first stage is kept.",
        "多个流水线阶段执行了该调用；保留首个阶段的。",
    ),
    causes=(Text("weights that are shared between stages", "阶段之间共享的权重"),),
    message=Text(
        "{n} are on several pipeline stages; those of the first stage are kept, first {first}",
        "{n}出现在多个流水线 stage 上，保留最先的 stage，首个为 {first}",
    ),
)
PARTIAL = _merging(
    "MSP161",
    "partial placement",
    title=Text("terms of a sum were not merged", "部分和（Partial）未合并"),
    means=Text(
        "The ranks have terms of a distributed tensor with a partial placement; maximum, minimum and norm of a sum "
        "cannot be computed from those of its terms.",
        "各 rank 持有 placement 为 Partial 的分布式张量的部分和；和的最大值、最小值、范数无法由各部分的统计量得出。",
    ),
    causes=(
        Text(
            "statistics were collected; with task tensor the terms are added up",
            "采集的是统计量；task 为 tensor 时可求和",
        ),
    ),
    message=Text(
        "{n} are terms of a sum (partial placement) and were not merged, first {first}: collect tensors to compare them",
        "{n}是部分和（placement 为 Partial），未合并，首个为 {first}：采集张量后可比对",
    ),
)
SHARE_OF_BATCH = _merging(
    "MSP162",
    "share of the batch",
    severity=Severity.NOTE,
    title=Text("a value of each rank's share of the batch was not merged", "各 rank 的 batch 分片上的值未合并"),
    means=Text(
        "Each rank computes the loss of its own share of the batch; how these losses and their gradients relate to those "
        "of the whole batch depends on how the loss is averaged.",
        "各 rank 只计算自身 batch 分片的 loss；这些 loss 及其梯度与整个 batch 的关系取决于 loss 的平均方式。",
    ),
    causes=(Text("data parallelism; parameters and their gradients are merged", "数据并行；参数及其梯度已合并"),),
    message=Text(
        "{n} belong to each rank's share of the batch and were not merged, first {first}: parameters and their "
        "gradients are compared",
        "{n}属于各 rank 自身的 batch 分片，未合并，首个为 {first}：参数及其梯度会比对",
    ),
)
SHARDS_ABSENT = _merging(
    "MSP163",
    "shards absent",
    title=Text("shards of a tensor are absent", "缺少张量的分片"),
    means=Text(
        "The shards of the ranks that are merged are not all of the distributed tensor.",
        "参与合并的各 rank 的分片不能拼成完整的分布式张量。",
    ),
    causes=(
        Text(
            "dumps of some ranks are missing, or the mesh extends over more ranks",
            "缺少部分 rank 的 dump，或 mesh 跨越更多 rank",
        ),
    ),
    message=Text(
        "{n} lack shards of other ranks and were not merged, first {first}",
        "{n}缺少其他 rank 的分片，未合并，首个为 {first}",
    ),
)
SHARD_DIFFERS = _merging(
    "MSP164",
    "shard differs",
    severity=Severity.ERROR,
    title=Text("a shard differs from the golden", "某个分片与标杆不同"),
    means=Text(
        "One shard of a tensor differs from its part of the golden tensor far more than the other shards.",
        "张量的某个分片与标杆张量对应部分的差异远大于其他分片。",
    ),
    causes=(
        Text(
            "an update, a load or a communication that went wrong on these ranks", "这些 rank 上的更新、加载或通信有误"
        ),
    ),
    message=Text(
        "{where}: {name} differs in the shard of rank {ranks}, by {apart}",
        "{where}：{name} 在 rank {ranks} 的分片中不同，相差 {apart}",
    ),
)
ACCUMULATED = _merging(
    "MSP165",
    "accumulated on one side",
    severity=Severity.NOTE,
    title=Text("a gradient is accumulated on one side", "一侧的梯度是累积值"),
    means=Text(
        "FSDP2 adds up the gradients of several backward passes before they can be recorded; the other side has that of "
        "one backward pass.",
        "FSDP2 在可采集之前已将多次反向的梯度相加；另一侧是单次反向的梯度。",
    ),
    causes=(Text("gradient accumulation; the update after it is judged", "梯度累积；其后的更新会判定"),),
    message=Text(
        "{n} are sums of several backward passes on one side and were not merged, first {first}: the update after them "
        "is judged",
        "{n}在一侧是多次反向的累积值，未合并，首个为 {first}：其后的更新会判定",
    ),
)
NOT_NUMBERED = _merging(
    "MSP166",
    "ranks not numbered",
    title=Text("ranks with gaps in their numbers were not merged", "rank 编号不连续，未合并"),
    means=Text(
        "The runs distribute their tensors differently, so that ranks would have to be merged; the numbers of the ranks "
        "have gaps, and the runs were compared rank by rank.",
        "两次运行切分张量的方式不同，本应先合并 rank；但 rank 编号有缺，因而逐 rank 比对。",
    ),
    causes=(Text("dumps of some ranks are missing", "缺少部分 rank 的 dump"),),
    message=Text(
        "the {side} has shards of distributed tensors on ranks {ranks} and was not merged, because ranks between them are "
        "missing: shards are compared with each other rank by rank",
        "{side} 侧的 rank {ranks} 持有分布式张量的切片，因其间缺少 rank 而未合并：逐 rank 比对各切片",
    ),
)
NO_STACKS = _merging(
    "MSP167",
    "no call stacks",
    title=Text("call stacks are absent", "缺少调用栈"),
    means=Text(
        "The functions that PyTorch calls to distribute a model are recognized by their call stacks; without them, they "
        "are compared like functions of the training.",
        "PyTorch 为切分模型而调用的函数由调用栈识别；没有调用栈时，它们与训练自身的函数一样参与比对。",
    ),
    causes=(Text("stack.json is missing or empty", "stack.json 缺失或为空"),),
    message=Text(
        "the dumps have no call stacks: functions that PyTorch calls to distribute the model are not recognized, and "
        "have no counterpart",
        "dump 没有调用栈：无法识别 PyTorch 为切分模型而调用的函数，它们没有对应项",
    ),
)
