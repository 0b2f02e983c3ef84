"""Kinds of findings of `msprobe check`, one for each invariant: MSP301 to MSP315."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_kind = partial(Kind, severity=Severity.ERROR, docs="how-to/checking/check.md#what-is-checked")

EQUAL_PARAMETERS = _kind(
    "MSP301",
    "equal-parameters",
    title=Text("parameters differ between ranks", "各 rank 权重不一致"),
    means=Text(
        "A parameter that data parallelism replicates is not equal on all ranks.",
        "数据并行下应为副本的权重在各 rank 上不相等。",
    ),
    decided=Text(
        "By digests or statistics of the parameter on each rank. Parameters that differ from the first step on may "
        "be shards, and are unjudged unless their gradients are reduced.",
        "依据各 rank 上权重的摘要或统计量。从首个 step 起就不同的权重可能是切片，除非其梯度被归约，否则不判定。",
    ),
    causes=(
        Text("initial weights that were not broadcast", "初始权重未广播"),
        Text("gradient clipping or a learning rate on one rank only", "某个 rank 单独使用的梯度裁剪或学习率"),
        Text("gradients that are not reduced", "梯度未归约"),
    ),
    look=Text(
        "at what each rank does separately: seeds, the broadcast of initial weights, clipping, learning rates, "
        "groups of collectives, and gradients that are not reduced",
        "各 rank 各自的行为：随机种子、初始权重的广播、裁剪、学习率、通信组，以及未归约的梯度",
    ),
    confirm=Text(
        "Compare the first step in which they differ with the previous one.",
        "对照首次出现差异的 step 与其前一个 step。",
    ),
    message={
        "parameter": Text("differs from the other ranks", "与其他 rank 不同"),
        "replica": Text(
            "differs from the other ranks that have the same part of it (replicated placement)",
            "与持有同一部分的其他 rank 不同（placement 为 Replicate）",
        ),
    },
)
REDUCED_GRADIENTS = _kind(
    "MSP302",
    "reduced-gradients",
    title=Text("a gradient is not reduced over the ranks", "梯度未跨卡归约"),
    means=Text(
        "The gradient of a parameter is not reduced, while the gradients of most parameters are.",
        "某个权重的梯度未参与归约，而多数权重的梯度参与了。",
    ),
    decided=Text(
        "By searching each gradient among the inputs of the recorded collectives.",
        "在已记录的集合通信的输入中查找每个梯度。",
    ),
    causes=(
        Text("a loop or hook that omits a parameter", "归约的循环或 hook 遗漏了该权重"),
        Text("a parameter that was added after the hooks", "在注册 hook 之后才加入的权重"),
    ),
    look=Text(
        "at the loop or hook that reduces gradients, and at the parameters that it omits",
        "归约梯度的循环或钩子，以及被其遗漏的参数",
    ),
    confirm=Text(
        "Compare the parameter between the ranks after a few steps.", "若干 step 之后比较该权重在各 rank 上的值。"
    ),
    message={
        "gradient": Text(
            "its gradient is not reduced over the ranks, those of most parameters are",
            "其梯度未参与跨卡归约，而大多数参数的梯度都参与了",
        ),
        "own gradient": Text(
            "is not distributed, and its gradient is not the same on all ranks: it is not reduced",
            "未切分，且其梯度在各 rank 上不同：没有归约",
        ),
    },
)
OWN_BATCHES = _kind(
    "MSP303",
    "own-batches",
    title=Text("ranks have the same batch", "各 rank 使用了相同的 batch"),
    means=Text(
        "Ranks that share gradients have the same batch: the work of all but one is lost.",
        "共享梯度的多个 rank 使用了同一个 batch：其余 rank 的计算没有意义。",
    ),
    decided=Text("By the run inputs of each rank.", "依据各 rank 的输入数据。"),
    causes=(Text("a sampler without the rank, or the number of ranks", "采样器不知道 rank 号或 rank 总数"),),
    look=Text(
        "at the sampler: its number of ranks, and this rank's number in it", "采样器：rank 总数，以及本 rank 的编号"
    ),
    confirm=Text("Print the sampler's rank and number of ranks.", "打印采样器使用的 rank 号与总数。"),
    message={
        "batch": Text("these ranks have the same batch", "这些 rank 使用了相同的 batch"),
    },
)
REDUCTIONS = _kind(
    "MSP304",
    "reductions",
    title=Text("the result of a collective does not match its inputs", "集合通信结果与输入不符"),
    means=Text(
        "The result of a collective is not the reduction of the inputs of all ranks, or is not equal on all ranks.",
        "集合通信的结果不是各 rank 输入的归约，或在各 rank 上不相等。",
    ),
    decided=Text(
        "By reducing the recorded inputs again in float64; by bounds, if statistics were collected.",
        "以 float64 重新归约记录的输入；只有统计量时按上下界判断。",
    ),
    causes=(
        Text("a buffer that is used again before the collective has ended", "集合通信结束前缓冲区被复用"),
        Text("a different group or operation on one rank", "某个 rank 的通信组或操作不同"),
        Text("a broken link or device", "链路或设备故障"),
    ),
    look=Text(
        "at the group and the operation of the collective on every rank, and at the use of its result",
        "各 rank 上集合通信的通信组与操作，以及对其结果的处理",
    ),
    confirm=Text(
        "Wait for the handle before the buffer is used, and run again.", "在使用缓冲区之前等待句柄完成，然后重新运行。"
    ),
    message={
        "unequal results": Text("the result is not equal on all ranks: {place}", "各 rank 的结果不一致：{place}"),
        "reduction": Text("the result is not a reduction of the inputs of the ranks", "结果不是各 rank 输入的归约"),
    },
)
GRADIENTS = _kind(
    "MSP305",
    "gradients",
    severity=Severity.WARNING,
    title=Text("a trainable parameter has no gradient", "可训练参数没有梯度"),
    means=Text(
        "A parameter that is not frozen has no gradient: it is detached from the loss, or it is not used.",
        "未冻结的权重没有梯度：与 loss 断开，或没有被使用。",
    ),
    decided=Text(
        "By the gradients of the step. If most parameters have none, as in fine-tuning, it is unjudged.",
        "依据该 step 的梯度。若多数权重没有梯度（如微调），则不判定。",
    ),
    causes=(
        Text("an output that is detached, or computed without gradients", "输出被 detach，或在无梯度模式下计算"),
        Text("a branch that this batch does not take", "该 batch 未经过的分支"),
    ),
    look=Text(
        "at the parameter: whether it is frozen, its output is detached, or it is not used",
        "参数是否被冻结、其输出是否被 detach，或是否未被使用",
    ),
    confirm=Text(
        "Compute the gradient of the loss with respect to this parameter alone.", "单独求 loss 对该权重的梯度。"
    ),
    message={
        "no gradient": Text(
            "has no gradient: detached from the loss, not used, or frozen", "没有梯度：与 loss 断开、未被使用，或被冻结"
        ),
    },
)
UPDATES = _kind(
    "MSP306",
    "updates",
    title=Text("a parameter is not updated", "权重未被更新"),
    means=Text(
        "A parameter has a gradient that is not negligible, and is unchanged after the update.",
        "权重的梯度不可忽略，但更新之后没有变化。",
    ),
    decided=Text(
        "By two successive steps. An update below the spacing of the parameter's numbers is unjudged.",
        "依据连续两个 step。更新量小于权重数值间隔时不判定。",
    ),
    causes=(
        Text("a parameter that is not in the optimizer", "权重未交给优化器"),
        Text("a learning rate of 0 for its group", "所在参数组的学习率为 0"),
    ),
    look=Text(
        "at the parameters of the optimizer, and at their learning rate",
        "传给优化器的参数列表，以及其学习率",
    ),
    confirm=Text("List the parameters of the optimizer's groups.", "列出优化器各参数组中的权重。"),
    message={
        "still": Text(
            "has a gradient and is not updated: not in the optimizer, or its learning rate is 0",
            "有梯度但未变化：不在优化器中，或学习率为 0",
        ),
        "rank still": Text(
            "no parameter of these ranks is updated, those of the other ranks are: an update was skipped",
            "这些 rank 的参数都没有变化，其他 rank 的参数有变化：跳过了一次更新",
        ),
    },
)
SOFTMAX = _kind(
    "MSP307",
    "softmax",
    title=Text("rows of a softmax do not add up to 1", "softmax 各行之和不为 1"),
    means=Text(
        "Rows of a softmax have negative elements, or do not add up to 1.", "softmax 的行含负元素，或各行之和不为 1。"
    ),
    decided=Text("By the output, with a tolerance for its dtype and length.", "依据输出，容差取决于 dtype 与长度。"),
    causes=(
        Text("a softmax over another axis", "softmax 的轴不同"),
        Text("a kernel that is wrong", "算子有误"),
    ),
    look=Text(
        "at the axis of the softmax; if it is correct, at the kernel that runs it",
        "softmax 的轴；轴正确时检查执行它的算子",
    ),
    confirm=Text("Run the call alone with `msprobe acc-check`.", "用 msprobe acc-check 单独检查该调用。"),
    message={
        "row sum": Text("rows of {place} do not add up to 1", "{place} 各行之和不为 1"),
    },
)
MASKS = _kind(
    "MSP308",
    "masks",
    title=Text("a mask does not hide what it should", "掩码未生效"),
    means=Text(
        "A masked position has a weight, or a causal mask does not hide later positions.",
        "被遮蔽的位置仍有权重，或因果掩码露出了之后的内容。",
    ),
    decided=Text(
        "By the attention weights and the form of the mask. An unknown form is unjudged.",
        "依据注意力权重与掩码的形式；形式未知时不判定。",
    ),
    causes=(
        Text(
            "True means `keep` in one framework and `hide` in the other",
            "True 在一个框架中表示保留，在另一个中表示遮蔽",
        ),
        Text("a mask that is off by one, or hides the wrong side", "掩码错开一位，或方向相反"),
    ),
    look=Text(
        "at the line that creates the mask: the side that it hides, the diagonal, and the meaning of True",
        "生成掩码的代码行：遮蔽哪一侧、对角线，以及 True 的含义",
    ),
    confirm=Text("Print the mask of four positions.", "打印四个位置的掩码。"),
    message={
        "masked weight": Text("a masked position has a weight", "被遮蔽的位置仍有权重"),
        "shows what comes later": Text(
            "the causal mask gives later positions a weight", "因果掩码使之后的位置获得权重"
        ),
        "hides the past": Text("the causal mask hides the past and shows the future", "因果掩码遮蔽了过去而暴露了未来"),
        "hides itself": Text("the causal mask hides a position from itself", "因果掩码使位置看不到自身"),
    },
)
NORMS = _kind(
    "MSP309",
    "norms",
    title=Text("the output of a norm is not normalized", "归一化输出不符合预期"),
    means=Text(
        "The output of a normalization, without weight and bias, does not have mean 0 and mean square 1.",
        "去除 weight 与 bias 之后，归一化的输出不满足均值为 0、均方为 1。",
    ),
    decided=Text(
        "By the recorded output, weight and bias, and the layer's definition.",
        "依据记录的输出、weight、bias 以及层的定义。",
    ),
    causes=(
        Text("axes that differ from the layer's", "归一化的轴不同"),
        Text("an eps that is not small compared with the variance", "eps 与方差相比不够小"),
        Text("a kernel that is wrong", "算子有误"),
    ),
    look=Text(
        "at the axes and eps of the layer; if they are correct, at the kernel that runs it",
        "该层的轴与 eps；两者正确时检查执行它的算子",
    ),
    confirm=Text(
        "Compute the layer by its formula in float64 on the recorded input.", "对记录的输入以 float64 按公式计算该层。"
    ),
    message={
        "row statistics": Text(
            "{place} without weight and bias does not have mean 0 and mean square 1",
            "{place} 去除权重与偏置后，均值不为 0 或均方不为 1",
        ),
    },
)
REPLAY = _kind(
    "MSP310",
    "replay",
    title=Text("a call computes a wrong result", "调用的计算结果不正确"),
    means=Text(
        "The recorded output is not the result of the operation for the recorded inputs.",
        "记录的输出与对记录的输入执行该操作的结果不符。",
    ),
    decided=Text(
        "The operation is executed again in float64; the tolerance follows from the dtypes and the number of terms.",
        "以 float64 重新执行该操作；容差由 dtype 与求和项数决定。",
    ),
    causes=(
        Text("a kernel that is wrong, or a wrong fusion", "算子有误，或融合有误"),
        Text("a broken device", "设备故障"),
    ),
    look=Text(
        "at the kernel that runs this call; msprobe acc-check checks it alone",
        "执行该调用的算子；可用 msprobe acc-check 单独检验",
    ),
    confirm=Text("Run the call alone on the device: `msprobe repro`.", "在设备上单独运行该调用：msprobe repro。"),
    message={
        "replay": Text(
            "{place} is not the result of the operation for its recorded inputs",
            "{place} 与该操作对所记录输入的结果不符",
        ),
    },
)
WRITTEN_MEMORY = _kind(
    "MSP311",
    "written-memory",
    title=Text("uninitialized memory is read", "读取了未写入的内存"),
    means=Text(
        "A call reads memory that `empty()` returned, before it was written.",
        "某个调用读取了 empty() 返回后尚未写入的内存。",
    ),
    decided=Text("By the dataflow from `empty()` to the call.", "依据从 empty() 到该调用的数据流。"),
    causes=(Text("a buffer that is only partly filled", "缓冲区只填充了一部分"),),
    look=Text(
        "at the call of empty() that allocated this memory: fill it, or write all of it before it is read",
        "分配该内存的 empty() 调用：先填充，或在读取前全部写入",
    ),
    confirm=Text("Replace `empty` by `zeros`, and run again.", "将 empty 换成 zeros 后重新运行。"),
    message={
        "memory": Text("{place} is memory that was never written", "{place} 是从未写入的内存"),
    },
)
RESUME = _kind(
    "MSP312",
    "resume",
    title=Text("a resumed training does not continue as before", "续训后与原训练不一致"),
    means=Text(
        "The resumed run differs from the uninterrupted one: parameters, batches, states or results.",
        "续训与一直运行的训练不同：权重、batch、状态或结果。",
    ),
    decided=Text("By comparing one step of both runs.", "比较两次运行的同一个 step。"),
    causes=(
        Text("optimizer state, random state or the scheduler was not saved", "未保存优化器状态、随机状态或学习率调度"),
        Text("the data start from the beginning", "数据从头开始"),
    ),
    look=Text(
        "at what is saved and loaded: weights, optimizer state, random state, and the position in the data",
        "保存与加载的内容：权重、优化器状态、随机状态，以及数据位置",
    ),
    confirm=Text(
        "Compare the checkpoint with the state of the uninterrupted run: `msprobe config-check`.",
        "将 checkpoint 与一直运行的训练状态比较：msprobe config-check。",
    ),
    docs="how-to/checking/check.md#resuming",
    message={
        "resumed parameter": Text(
            "was not restored: it differs from the uninterrupted run", "未恢复：与未中断的训练不同"
        ),
        "resumed input": Text(
            "{place} differs from the uninterrupted run, the parameters do not: the batch, or random numbers",
            "{place} 与未中断的训练不同而参数相同：batch 或随机数不同",
        ),
        "resumed state": Text("{place} was not restored", "{place} 未恢复"),
        "resumed output": Text(
            "{place} differs from the uninterrupted run, although its inputs do not: random numbers",
            "{place} 与未中断的训练不同而输入相同：随机数不同",
        ),
        "resumed call": Text("the uninterrupted run does not make this call", "未中断的训练没有此调用"),
    },
)
GRADIENT_NORM = _kind(
    "MSP313",
    "gradient-norm",
    title=Text("a norm of all gradients does not count each of them once", "全局梯度范数未对每个梯度恰好计一次"),
    means=Text(
        "The norm by which gradients are clipped counts gradients several times that several ranks have, or leaves out "
        "gradients of some ranks.",
        "用于裁剪的全局梯度范数重复计入了多个 rank 上的同一梯度，或遗漏了部分 rank 的梯度。",
    ),
    decided=Text(
        "The norm is computed again from the recorded norms of the gradients, once by blocks and once as each mistake "
        "gives it. A recorded scalar that is the norm of a mistake, on all ranks that take part, is a violation if the "
        "correct norm is not recorded.",
        "由各梯度已记录的范数重新计算：一次按切片，一次按各种错误的算法。若参与的各 rank 都记录了某种错误算法的结果，"
        "而正确的范数没有出现，则为违反。",
    ),
    causes=(
        Text(
            "squares of norms that are summed over tensor parallel ranks, with those of replicated weights",
            "在张量并行 rank 间求和范数平方时，包含了被复制的权重",
        ),
        Text(
            "a sum over only one of the groups among which the model is distributed",
            "只在模型切分所用的其中一个通信组内求和",
        ),
    ),
    look=Text(
        "at the function that computes the norm: which parameters each rank counts, and in which group the sum is reduced",
        "计算范数的函数：各 rank 计入哪些参数，以及在哪个通信组内归约",
    ),
    confirm=Text(
        "Compute the norm of the same batch in one process, or count replicated weights on one rank only.",
        "用同一 batch 在单进程中计算范数，或只在一个 rank 上计入被复制的权重。",
    ),
    message={
        "counted": Text(
            "its gradient is the largest of those that {place} counts once for each rank that has a copy; ratio to the "
            "correct norm",
            "{place} 对持有副本的每个 rank 各计一次其梯度（此类梯度中最大者）；与正确范数之比",
        ),
        "shards left out": Text(
            "{place} counts only the gradients of these ranks, and other ranks have further shards; ratio to the correct "
            "norm",
            "{place} 只计入了这些 rank 的梯度，其他 rank 还有别的切片；与正确范数之比",
        ),
        "replicas left out": Text(
            "its gradient is the largest of those that {place} leaves out, all of which several ranks have; ratio to the "
            "correct norm",
            "{place} 遗漏了多个 rank 都持有副本的梯度，其中最大的是它；与正确范数之比",
        ),
    },
)
CLIPPING = _kind(
    "MSP314",
    "clipping",
    title=Text("ranks clip gradients differently", "各 rank 的梯度裁剪不一致"),
    means=Text(
        "Ranks that train one model clip their gradients by different norms or factors: the update is not that of any "
        "gradient of the model.",
        "共同训练一个模型的各 rank 以不同的范数或系数裁剪梯度：更新不对应模型的任何一个梯度。",
    ),
    decided=Text(
        "By the factor between the gradient and its scaled result on each rank; where these are not recorded, by a norm "
        "that is that of the rank's own gradients and is not reduced over ranks.",
        "依据各 rank 上梯度与缩放后结果之间的系数；未记录时，依据只含本 rank 梯度且未跨卡归约的范数。",
    ),
    causes=(
        Text("a norm of local shards (`to_local`) that is not reduced", "用本地切片（to_local）计算范数而未归约"),
        Text("clipping before gradients are reduced over the ranks", "在梯度跨卡归约之前裁剪"),
        Text("clipping under a condition of one rank", "裁剪取决于某个 rank 自身的条件"),
    ),
    look=Text(
        "at the norm by which gradients are clipped: whether it is reduced over all ranks, and whether it is computed "
        "after the gradients were reduced",
        "用于裁剪的范数：是否在所有 rank 间归约，以及是否在梯度归约之后计算",
    ),
    confirm=Text("Print the norm on all ranks: it must be the same.", "在所有 rank 上打印该范数：应相同。"),
    message={
        "local norm": Text(
            "is the norm of the gradients of one rank only, and differs between the ranks; ratio of the largest to the "
            "smallest",
            "只是单个 rank 梯度的范数，各 rank 之间不同；最大与最小之比",
        ),
        "factor": Text(
            "its gradient is scaled by another factor than on the other ranks; ratio of the largest to the smallest",
            "其梯度的缩放系数与其他 rank 不同；最大与最小之比",
        ),
    },
)
LOSS_WEIGHTS = _kind(
    "MSP315",
    "loss-weights",
    severity=Severity.WARNING,
    title=Text("tokens have different weights in the loss", "各 token 在 loss 中的权重不同"),
    means=Text(
        "Each rank, or each micro batch, divides its loss by its own number of tokens, and these numbers differ: the "
        "result is a mean of means, not the mean over all tokens.",
        "各 rank（或各 micro batch）用自身的 token 数归一化 loss，而这些数目不同：结果是均值的均值，而不是全部 token 的均值。",
    ),
    decided=Text(
        "By the gradient that the loss receives in the backward, divided by the number of tokens if the call takes their "
        "mean. Weights that differ in another way are unjudged.",
        "依据 loss 在反向中收到的梯度；若该调用取均值，则再除以 token 数。以其他方式不同的权重不判定。",
    ),
    causes=(
        Text("padding, or sequences of different lengths", "填充，或序列长度不同"),
        Text("gradient accumulation over means", "对均值做梯度累积"),
    ),
    look=Text(
        "at the denominator of the loss: it has to be the number of tokens of all ranks and micro batches of the step, "
        "divided by the number over which gradients are averaged",
        "loss 的分母：应为该 step 所有 rank 与所有 micro batch 的 token 总数，再除以梯度平均所除的数",
    ),
    confirm=Text(
        "Sum the loss of each rank, divide by the total number of tokens, and compare the gradients.",
        "各 rank 对 loss 求和，除以 token 总数，再比较梯度。",
    ),
    message={
        "ranks": Text(
            "each rank divides by its own number of tokens, and those of these ranks weigh most; ratio of the largest "
            "weight to the smallest",
            "各 rank 除以自身的 token 数，这些 rank 的 token 权重最大；最大与最小权重之比",
        ),
        "micro batches": Text(
            "each micro batch divides by its own number of tokens, and those of this one weigh most; ratio of the "
            "largest weight to the smallest",
            "各 micro batch 除以自身的 token 数，该 micro batch 的 token 权重最大；最大与最小权重之比",
        ),
    },
)
