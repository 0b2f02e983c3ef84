"""Kinds of findings of `msprobe monitor compare`, by the first value of a step that leaves its band: MSP401 to MSP409.

MSP410 is that of the alerts of a monitor.
"""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_stage = partial(
    Kind,
    severity=Severity.ERROR,
    decided=Text(
        "The deviation between two runs is compared with the band of two correct runs: equal before, learned from "
        "the first steps, or calibrated.",
        "两次运行的偏差与两次正确运行所处的范围比较：此前逐位相等、由最初若干 step 学得，或经过标定。",
    ),
    look=Text(
        "at the module or parameter in the finding; next_dump.json collects its calls",
        "所指出的模块或权重；next_dump.json 可采集其调用",
    ),
    confirm=Text(
        "`next_dump.json` collects the calls in question; compare the two dumps with `msprobe compare`.",
        "按 next_dump.json 采集相关调用，再用 msprobe compare 比对两份 dump。",
    ),
    docs="how-to/comparing/monitor-compare.md#how-to-read-the-answer",
)

_LOSS_SCALE = Text(
    "all gradients differ by one factor while activations and loss agree: the loss scale",
    "激活值与 loss 一致而所有梯度相差同一倍数：loss scale 不同",
)
_BACKWARD = Text("the backward pass of a layer", "某一层的反向")

ACTIVATION = _stage(
    "MSP401",
    "activation",
    title=Text("an activation leaves its band", "激活值超出范围"),
    means=Text(
        "The output of a module is the first value of a step that leaves its band, while the weights agree.",
        "在权重一致的情况下，某个模块的输出是该 step 中首个超出范围的值。",
    ),
    causes=(
        Text(
            "of the first module: the data, repeated, skipped or in another order", "首个模块：数据重复、跳过或顺序不同"
        ),
        Text("of a later module: its forward pass", "之后的模块：其前向计算"),
    ),
    message={
        "data": Text(
            "the first activations differ while the weights agree: another batch, or the first layer",
            "权重一致而最初的激活值不同：batch 不同，或第一层有问题",
        ),
        "forward": Text("the forward pass of a layer", "某一层的前向"),
    },
)
LOSS = _stage(
    "MSP402",
    "loss",
    title=Text("the loss leaves its band", "loss 超出范围"),
    means=Text("The loss leaves its band while the activations agree.", "激活值一致，而 loss 超出范围。"),
    causes=(
        Text("labels, masks or weights of the loss", "loss 的标签、掩码或权重"),
        Text("a different average: over tokens, samples or ranks", "平均方式不同：按 token、样本或 rank"),
    ),
    message={
        "loss": Text("the loss differs while the activations agree", "激活值一致而 loss 不同"),
    },
)
ACTIVATION_GRADIENT = _stage(
    "MSP403",
    "activation gradient",
    title=Text("an activation's gradient leaves its band", "激活梯度超出范围"),
    means=Text(
        "The gradient of an activation leaves its band while activations and loss agree.",
        "激活值与 loss 一致，而激活的梯度超出范围。",
    ),
    causes=(
        Text("all gradients by one factor: the loss scale", "所有梯度相差同一倍数：loss scale"),
        Text("from one module on: its backward pass", "从某个模块开始：其反向计算"),
    ),
    message={
        "loss_scale": _LOSS_SCALE,
        "loss_gradient": Text(
            "the gradient of the last layer's output already differs: the backward pass of the loss",
            "最后一层输出的梯度已有差异：loss 的反向有问题",
        ),
        "backward": _BACKWARD,
    },
)
UNREDUCED = _stage(
    "MSP404",
    "unreduced gradient",
    title=Text("a gradient before reduction leaves its band", "归约前梯度超出范围"),
    means=Text(
        "A parameter's gradient leaves its band before it is reduced over the ranks.",
        "某个权重的梯度在跨 rank 归约之前已超出范围。",
    ),
    causes=(
        Text("the backward pass of the module", "该模块的反向计算"),
        Text(
            "of the first in the backward pass, without activations and loss: anything before",
            "反向中的首个梯度，且未监控激活与 loss：可能是之前的任何环节",
        ),
    ),
    message={
        "loss_scale": _LOSS_SCALE,
        "anything_before": Text(
            "the first gradient of the backward pass already differs, and neither activations nor the loss were "
            "monitored: the data, the forward pass, the loss, or the backward pass of the last layer",
            "反向的第一个梯度已有差异，而激活值和 loss 均未监控：数据、前向、loss 或最后一层的反向有问题",
        ),
        "backward": _BACKWARD,
    },
)
COLLECTIVE = _stage(
    "MSP405",
    "collective",
    title=Text("a collective leaves its band", "集合通信数据超出范围"),
    means=Text("Data that the ranks exchange leave their band.", "rank 之间交换的数据超出范围。"),
    causes=(Text("the group, the operation, or the order of collectives", "通信组、操作，或集合通信的顺序"),),
    message={
        "collective": Text("data that the ranks exchange", "卡间通信的内容"),
    },
)
REDUCED = _stage(
    "MSP406",
    "reduced gradient",
    title=Text("a gradient after reduction leaves its band", "归约后梯度超出范围"),
    means=Text(
        "A gradient leaves its band after the reduction, while it agrees before the reduction.",
        "梯度在归约之前一致，归约之后超出范围。",
    ),
    causes=(
        Text("on all ranks: the all-reduce, its group, or its average", "所有 rank：all-reduce、其通信组或平均方式"),
        Text("on some ranks: clipping or scaling there", "部分 rank：该处的梯度裁剪或缩放"),
    ),
    message={
        "gradient": Text(
            "gradients after the reduction; those before it were not recorded", "归约后的梯度不同；归约前的梯度未记录"
        ),
        "local_reduction": Text(
            "reduced gradients differ on some ranks while unreduced ones agree: clipping, or scaling, there",
            "归约前梯度一致，而部分 rank 上归约后梯度不同：这些 rank 的裁剪或缩放有问题",
        ),
        "reduction": Text(
            "reduced gradients differ while unreduced ones agree: the reduction, or clipping",
            "归约前梯度一致而归约后不同：归约或裁剪有问题",
        ),
    },
)
MOMENT = _stage(
    "MSP407",
    "moment",
    title=Text("a moment of the optimizer leaves its band", "优化器动量超出范围"),
    means=Text(
        "A moment of the optimizer leaves its band while the earlier gradients agree.",
        "此前的梯度一致，而优化器的动量超出范围。",
    ),
    causes=(
        Text("moments that were reset, or loaded from elsewhere", "动量被重置，或从别处加载"),
        Text("a different beta", "beta 不同"),
    ),
    message={
        "moments": Text(
            "the moments of the optimizer differ while the earlier gradients agree: reset, or loaded",
            "此前梯度一致而优化器动量不同：动量被重置或加载有误",
        ),
    },
)
BEFORE_UPDATE = _stage(
    "MSP408",
    "weight before the update",
    title=Text("a weight before the update leaves its band", "更新前权重超出范围"),
    means=Text(
        "A weight differs at the start of a step although the previous update agrees.",
        "上一次更新一致，而 step 开始时权重已不同。",
    ),
    causes=(Text("weights that were written between two steps", "权重在两个 step 之间被改写"),),
    message={
        "weights": Text(
            "the weights at the start of a step: they were changed between steps, or by the previous update",
            "该 step 开始时权重已不同：由上一次更新，或在两个 step 之间被改变",
        ),
    },
)
AFTER_UPDATE = _stage(
    "MSP409",
    "weight after the update",
    title=Text("a weight after the update leaves its band", "更新后权重超出范围"),
    means=Text(
        "A weight differs after the update, while gradients and moments agree.", "梯度与动量一致，而更新后权重不同。"
    ),
    causes=(
        Text("all parameters: learning rate, betas, eps", "所有权重：学习率、beta、eps"),
        Text("some parameters: weight decay, or a parameter group", "部分权重：权重衰减或参数组"),
    ),
    message={
        "update_of_all": Text(
            "the update of all parameters while gradients and moments agree: learning rate, eps, or betas",
            "梯度与动量一致而所有参数的更新不同：学习率、eps 或 beta 不同",
        ),
        "update_of_some": Text(
            "the update of some parameters while gradients and moments agree: weight decay or a group's rate; or eps",
            "梯度与动量一致而部分参数的更新不同：权重衰减或某组学习率不同，或 eps 不同",
        ),
    },
)
ANOMALY = Kind(
    "MSP410",
    "anomaly",
    severity=Severity.WARNING,
    title=Text("a monitored value is abnormal", "监控值异常"),
    means=Text(
        "A statistic of a monitored tensor jumps, exceeds a threshold, or is not finite.",
        "某个被监控张量的统计量发生突变、超过阈值，或不是有限值。",
    ),
    decided=Text(
        "By the rules of the setting `alert`, against earlier values of the same series.",
        "按 alert 设置中的规则，与同一序列之前的值比较。",
    ),
    causes=(
        Text("an outlier batch", "异常的 batch"),
        Text("an overflow, or an unstable training", "溢出，或训练不稳定"),
    ),
    look=Text("at the earliest anomaly, and at the batch of its step", "最早的异常及其 step 的 batch"),
    confirm=Text(
        "Collect the step with PrecisionDebugger, and run `msprobe overflow-check` and `msprobe check`.",
        "用 PrecisionDebugger 采集该 step，再运行 msprobe overflow-check 和 msprobe check。",
    ),
    docs="how-to/collecting/monitor-alerts.md#the-rules",
)
