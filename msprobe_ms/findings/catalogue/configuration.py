"""Kinds of findings of a comparison of configurations, by what is compared: MSP601 to MSP607."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_BY_VALUE = Text(
    "Names are matched, including similar names and aliases; values are compared as they are.",
    "匹配名称（包括相似名称与别名），按原值比较。",
)
_START_ALIKE = Text("Use the same setting on both sides, then compare their values.", "先将两侧设为相同，再比对数值。")
_kind = partial(
    Kind,
    severity=Severity.WARNING,
    look=Text("at both values", "两侧的取值"),
    docs="how-to/comparing/config-check-pack.md#compare",
)

HYPERPARAMETERS = _kind(
    "MSP601",
    "hyperparameters differs",
    title=Text("a hyperparameter differs", "超参不同"),
    means=Text("A setting of the training has different values.", "训练的某项设置在两侧取值不同。"),
    decided=_BY_VALUE,
    causes=(Text("a command line or configuration file that was changed", "命令行或配置文件有改动"),),
    confirm=_START_ALIKE,
)
ENV = _kind(
    "MSP602",
    "env differs",
    title=Text("an environment variable differs", "环境变量不同"),
    means=Text(
        "An environment variable that can change numbers has different values.", "可能影响数值的环境变量取值不同。"
    ),
    decided=_BY_VALUE,
    causes=(Text("deterministic or precision settings of a library", "库的确定性或精度设置"),),
    confirm=_START_ALIKE,
)
PIP = _kind(
    "MSP603",
    "pip differs",
    title=Text("a package has different versions", "软件包版本不同"),
    means=Text("A package that can change numbers has different versions.", "可能影响数值的软件包版本不同。"),
    decided=Text("By the installed distributions.", "依据已安装的软件包。"),
    causes=(Text("an upgrade of one side", "其中一侧升级过"),),
    confirm=Text("Install the other side's version.", "安装另一侧的版本。"),
)
DATASET = _kind(
    "MSP604",
    "dataset differs",
    title=Text("the data differ", "数据集不同"),
    means=Text("The batches that the model receives differ.", "送入模型的 batch 不同。"),
    decided=Text("By maximum, minimum, mean and norm of each batch.", "依据每个 batch 的最大值、最小值、均值与范数。"),
    causes=(Text("a different order, shuffling or preprocessing", "顺序、打乱或预处理不同"),),
    confirm=Text("Feed both runs one saved batch.", "让两次运行使用同一份保存的 batch。"),
)
WEIGHTS = _kind(
    "MSP605",
    "weights differs",
    title=Text("weights differ", "权重不同"),
    means=Text("Weights differ when the training starts.", "训练开始时权重不同。"),
    decided=Text("By maximum, minimum, mean and norm of each parameter.", "依据每个权重的最大值、最小值、均值与范数。"),
    causes=(Text("a different initialization or checkpoint", "初始化或加载的 checkpoint 不同"),),
    confirm=Text("Load one checkpoint on both sides.", "两侧加载同一个 checkpoint。"),
)
RANDOM = _kind(
    "MSP606",
    "random differs",
    title=Text("random calls differ", "随机数调用不同"),
    means=Text(
        "A function that draws random numbers is called a different number of times, or from a different place.",
        "产生随机数的函数被调用的次数或位置不同。",
    ),
    decided=Text("By counting the calls at each line.", "按代码行统计调用次数。"),
    causes=(Text("code that draws numbers on one side only", "仅一侧执行的随机数代码"),),
    confirm=Text(
        "Draw them on both sides, or set the seed again after that line.", "两侧都执行，或在该行之后重新设置种子。"
    ),
)
CONTEXT = _kind(
    "MSP607",
    "context differs",
    title=Text("the context differs", "上下文配置不同"),
    means=Text("A setting of the framework's context has different values.", "框架上下文的某项设置不同。"),
    decided=_BY_VALUE,
    causes=(Text("mode, precision or deterministic settings", "运行模式、精度或确定性设置"),),
    confirm=_START_ALIKE,
)
