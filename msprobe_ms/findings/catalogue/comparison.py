"""Kinds of findings of `msprobe compare`: MSP101 to MSP110."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_kind = partial(Kind, severity=Severity.ERROR, docs="how-to/comparing/compare.md#the-first-wrong-call")

COMPUTES = _kind(
    "MSP101",
    "computes differently",
    title=Text("computes differently", "计算结果不同"),
    means=Text(
        "All inputs of the call agree on both sides, and an output does not. The call itself, its settings, or the "
        "kernel that runs it differs.",
        "该调用在两侧的所有输入一致，但有输出不一致。差异出在调用本身、其设置或执行它的算子。",
    ),
    decided=Text(
        "Inputs are arguments and parameters; those of a backward call are its incoming gradients and what its "
        "forward call had. An output disagrees if it differs by more than its inputs and the rounding of one call "
        "explain.",
        "输入包括参数与权重；反向调用的输入为传入的梯度及其前向调用的输入输出。输出的差异超出输入差异与单次调用舍入所能解释的范围时，判为不一致。",
    ),
    causes=(
        Text("another eps, axis, scale or approximation of the layer", "层的 eps、轴、缩放系数或近似方式不同"),
        Text("a kernel that is wrong or computes in lower precision", "算子有误，或以更低精度计算"),
        Text("code inside the call that is not recorded by itself", "调用内部未单独记录的代码不同"),
    ),
    look=Text(
        "at the call and its settings; where the settings agree, at the kernel that runs it",
        "该调用及其设置；设置一致时检查执行它的算子",
    ),
    confirm=Text(
        "Run the call alone on its recorded inputs: `msprobe repro` writes the script for a dump with task tensor.",
        "以记录的输入单独运行该调用：对任务 tensor 的 dump，msprobe repro 可生成脚本。",
    ),
)
RANDOM = _kind(
    "MSP102",
    "random operation",
    severity=Severity.WARNING,
    title=Text("random operation", "随机操作"),
    means=Text(
        "The call draws random numbers, its inputs agree, and other numbers of the same distribution explain the "
        "output.",
        "该调用会产生随机数，输入一致，输出的差异可由同一分布的另一组随机数解释。",
    ),
    decided=Text(
        "The output is tested against the distribution of the recorded arguments. A dropout that is active on one "
        "side only, or drops the same elements with different results, is MSP101.",
        "按所记录参数描述的分布检验输出。仅一侧启用的 dropout，或丢弃位置相同而结果不同的情况，归为 MSP101。",
    ),
    causes=(
        Text(
            "seeds that differ, or that are set after the weights are created", "随机种子不同，或在权重创建之后才设置"
        ),
        Text(
            "two frameworks, whose generators return different numbers for the same seed",
            "两个框架的随机数生成器对同一种子给出不同的数",
        ),
        Text("a different number of random calls before this one", "在此之前的随机调用次数不同"),
    ),
    look=Text(
        "at the seeds of both runs, and at the random numbers that are drawn before this call",
        "两次运行的随机种子，以及此调用之前产生的随机数",
    ),
    confirm=Text(
        "Call `seed_all` at the start of both runs, or set `p=0`, and collect again.",
        "在两次运行开头调用 seed_all，或设置 p=0，然后重新采集。",
    ),
)
ARGUMENT = _kind(
    "MSP103",
    "argument differs",
    title=Text("argument differs", "参数取值不同"),
    means=Text(
        "The two sides pass different values, or different tensors that no recorded call returned, while the "
        "results of all earlier calls agree.",
        "两侧传入的值不同，或传入了并非由已记录调用产生的不同张量；此前已记录调用的结果均一致。",
    ),
    decided=Text(
        "Values are compared as they are, after names and defaults of the two frameworks are mapped. Tensors are "
        "compared by the rounding of their dtype.",
        "映射两个框架的名称与默认值之后，按原值比较；张量按其 dtype 的舍入误差比较。",
    ),
    causes=(
        Text("a default that differs between the frameworks", "两个框架的默认值不同"),
        Text("a constant or buffer that is computed differently", "常量或 buffer 的计算方式不同"),
        Text("a setting that applies to one side only", "某项设置只在一侧生效"),
    ),
    look=Text(
        "at the line that makes the call, and at the origin of this argument", "发起该调用的代码行，以及该参数的来源"
    ),
    confirm=Text(
        "Look at the line that makes the call, print the argument on both sides, and pass it explicitly.",
        "查看发起调用的代码行，在两侧打印该参数，并显式传入。",
    ),
)
STRUCTURE = _kind(
    "MSP104",
    "structure differs",
    title=Text("structure differs", "结构不同"),
    means=Text(
        "A call is made on one side only, or the other side makes a different call instead, and the values "
        "computed from it differ.",
        "某个调用仅一侧有，或另一侧在该位置执行了别的调用，且由其计算的结果不同。",
    ),
    decided=Text(
        "Calls are matched by name, order and dataflow. A rewrite with equal results (fused layers, a norm that "
        "is written out) is not a finding.",
        "按名称、顺序与数据流匹配调用。结果相同的改写（融合层、展开书写的归一化等）不作为问题。",
    ),
    causes=(
        Text("a layer that one side does not have, or has twice", "某一侧缺少或多出一层"),
        Text("a branch that depends on training mode or configuration", "取决于训练模式或配置的分支不同"),
        Text("parameters that are frozen on one side", "某一侧冻结了部分权重"),
    ),
    look=Text(
        "at the line that makes the call, and at the conditions under which it runs",
        "发起该调用的代码行，以及其执行条件",
    ),
    confirm=Text(
        "Compare the source lines of both sides; `msprobe graph` draws both call trees side by side.",
        "对照两侧的代码行；msprobe graph 可并排显示两侧的调用树。",
    ),
)
PARAMETERS = _kind(
    "MSP105",
    "parameters differ",
    title=Text("parameters differ", "权重不同"),
    means=Text(
        "Parameters differ before the first output does: at the start, or by an update of the optimizer.",
        "在首个不一致的输出之前，权重已不同：初始即不同，或由优化器的更新造成。",
    ),
    decided=Text(
        "In the first step by value, later by their updates: optimizers are fitted to both sides, and the setting "
        "that explains the difference is reported.",
        "首个 step 按值判断；之后按更新量判断：在两侧拟合优化器，指出能解释差异的设置。",
    ),
    causes=(
        Text("a different initialization or checkpoint", "初始化或加载的 checkpoint 不同"),
        Text(
            "another learning rate, weight decay, beta, eps or clipping", "学习率、权重衰减、beta、eps 或梯度裁剪不同"
        ),
        Text("parameters that are not in the optimizer", "部分权重未交给优化器"),
    ),
    look=Text(
        "at the origin of the weights: seeds, optimizer, checkpoints (msprobe config-check --compare)",
        "权重的来源：随机种子、优化器、checkpoint（msprobe config-check --compare）",
    ),
    confirm=Text(
        "Compare the checkpoints (`msprobe config-check`), and collect two successive steps from step 0.",
        "比对 checkpoint（msprobe config-check），并从 step 0 起采集连续两个 step。",
    ),
)
RUN_INPUTS = _kind(
    "MSP106",
    "run inputs differ",
    title=Text("run inputs differ", "输入数据不同"),
    means=Text(
        "The first inputs of the model differ: the two runs do not compute the same step.",
        "模型最先接收的张量已不同：两次运行计算的不是同一个 step。",
    ),
    decided=Text(
        "Inputs that no recorded call returned are compared before the results that depend on them.",
        "并非由已记录调用产生的输入，先于由其计算的一切进行比较。",
    ),
    causes=(
        Text("a different order or shuffling of the data", "数据顺序或打乱方式不同"),
        Text("preprocessing, padding or tokenization that differs", "预处理、填充或分词不同"),
        Text(
            "a different step: one side was resumed, or skipped a batch", "step 不对应：一侧为续训，或跳过了某个 batch"
        ),
    ),
    look=Text(
        "at the data, their order and their preprocessing before the first call",
        "数据及其顺序，以及首个调用之前的数据处理",
    ),
    confirm=Text(
        "Feed both runs one saved batch, and collect again.", "让两次运行使用同一份保存的 batch，再重新采集。"
    ),
)
CODE = _kind(
    "MSP107",
    "code between",
    title=Text("code between recorded calls differs", "已记录调用之间的代码不同"),
    means=Text(
        "The difference does not begin in a recorded call, but between the last call that agrees and the first "
        "call that receives it.",
        "没有已记录的调用是差异的起点：差异出现在最后一个一致的调用与首个接收差异的调用之间。",
    ),
    decided=Text(
        "By the dataflow of the records: the call that returned the input that differs, and whether that call agrees.",
        "依据记录的数据流：不一致的输入由哪个调用产生，以及该调用是否一致。",
    ),
    causes=(
        Text("operations that are not recorded: NumPy, in-place changes, lists", "未记录的操作：NumPy、原地修改、列表"),
        Text("arguments that are swapped, or taken from another call", "参数互换，或取自另一个调用"),
        Text("a collection with a list or scope that excludes calls", "采集时的 list 或 scope 排除了部分调用"),
    ),
    look=Text(
        "at the code between the two calls; values in it can be saved explicitly (docs: saving)",
        "两个调用之间的代码；其中的值可手动保存（参见文档 saving）",
    ),
    confirm=Text(
        "Collect at level mix without a list, or save values in between with `save`.",
        "以级别 mix 且不设 list 重新采集，或用 save 保存中间值。",
    ),
)
PRECISION = _kind(
    "MSP108",
    "precision differs",
    title=Text("precision differs", "精度不同"),
    means=Text(
        "One side rounds to fewer bits than all operations of the other side between the same two compared tensors.",
        "在同样两个被比较的张量之间，一侧舍入到的位数少于另一侧路径上的任何一处。",
    ),
    decided=Text(
        "By the recorded dtypes, independent of tolerances.",
        "按记录的 dtype 判断，任何容差都不能放过。",
    ),
    causes=(
        Text("mixed precision (amp, autocast, to_float) on one side", "仅一侧使用混合精度（amp、autocast、to_float）"),
        Text(
            "a cast in the code, or a layer that is kept in another dtype", "代码中的类型转换，或某层使用了其他 dtype"
        ),
    ),
    look=Text(
        "at casts, mixed precision (amp, autocast, to_float), and the dtypes of layers",
        "类型转换、混合精度（amp、autocast、to_float）以及各层的 dtype",
    ),
    confirm=Text(
        "Compare the dtypes around the call in the table, and the settings of mixed precision.",
        "对照表格中该调用前后的 dtype，以及混合精度的设置。",
    ),
)
HARMLESS = _kind(
    "MSP109",
    "harmless difference",
    severity=Severity.NOTE,
    title=Text("harmless difference", "无害的差异"),
    means=Text(
        "The values differ, and the results that are computed from them do not.", "数值有差异，但由其计算的结果都一致。"
    ),
    decided=Text(
        "The difference is followed through the dataflow until every value that depends on it agrees, or nothing "
        "uses it.",
        "沿数据流追踪该差异，直到所有依赖它的值都一致，或无人使用它。",
    ),
    causes=(
        Text("a mask of another form that results in the same softmax", "形式不同但 softmax 结果相同的掩码"),
        Text("values that are discarded or multiplied by zero", "被丢弃或乘以零的值"),
    ),
    look=Text("nowhere: the results that are computed from it agree", "无需处理：由它计算出的结果都一致"),
    confirm=Text(
        "No action is necessary. A comparison of more steps shows whether it remains harmless.",
        "无需处理。比对更多 step 可确认其始终无害。",
    ),
    docs="explanation/noise.md",
)
UNKNOWN = _kind(
    "MSP110",
    "cannot tell",
    severity=Severity.WARNING,
    title=Text("cannot tell", "无法确定"),
    means=Text(
        "Values differ, and the records that would show where the difference begins are missing.",
        "存在差异，但缺少能指明其起点的记录。",
    ),
    decided=Text(
        "An input of the call, or the call that returned it, was not collected or could not be judged; the reason "
        "has its name.",
        "该调用的某个输入，或产生它的调用，未被采集或无法判定；原因中会指明。",
    ),
    causes=(
        Text("a collection of outputs only, or of one direction", "只采集了输出，或只采集了一个方向"),
        Text("a later step without the previous one", "采集了后面的 step 而缺少前一个"),
        Text("digests on one side, statistics on the other", "一侧为摘要，另一侧为统计量"),
    ),
    look=Text("at the records that were not collected", "采集时遗漏的内容"),
    confirm=Text(
        "Collect the records in the reason; `msprobe diagnose` writes the configuration for both runs.",
        "采集原因中所列的内容；msprobe diagnose 会生成两次运行共用的配置。",
    ),
)
