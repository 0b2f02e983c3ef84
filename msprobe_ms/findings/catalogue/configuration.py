"""Kinds of findings of a comparison of configurations, by what is compared: MSP601 to MSP607."""

from msprobe.findings.kind import Kind, Severity, Text

_DOCS = "how-to/comparing/config-check-pack.md#compare"


def _checker(code: str, name: str, title: Text, means: Text, decided: Text, cause: Text, confirm: Text) -> Kind:
    return Kind(code, name, Severity.WARNING, title, means, decided, (cause,), _LOOK, confirm, _DOCS)


_BY_VALUE = Text(
    "Names are matched, also similar ones and aliases; values are compared as they are.",
    "匹配名称（包括相似名称与别名），按原值比较。",
)
_LOOK = Text("at both values", "两侧的取值")
_START_ALIKE = Text("Set both sides alike, and compare their values then.", "先将两侧设为相同，再比对数值。")

HYPERPARAMETERS = _checker(
    "MSP601",
    "hyperparameters differs",
    Text("a hyperparameter differs", "超参不同"),
    Text("A setting of the training has another value on each side.", "训练的某项设置在两侧取值不同。"),
    _BY_VALUE,
    Text("a command line or configuration file that was changed", "命令行或配置文件有改动"),
    _START_ALIKE,
)
ENV = _checker(
    "MSP602",
    "env differs",
    Text("an environment variable differs", "环境变量不同"),
    Text("An environment variable that can change numbers has another value.", "可能影响数值的环境变量取值不同。"),
    _BY_VALUE,
    Text("deterministic or precision settings of a library", "库的确定性或精度设置"),
    _START_ALIKE,
)
PIP = _checker(
    "MSP603",
    "pip differs",
    Text("a package has another version", "软件包版本不同"),
    Text("A package that can change numbers has another version.", "可能影响数值的软件包版本不同。"),
    Text("By the installed distributions.", "依据已安装的软件包。"),
    Text("an upgrade of one side", "其中一侧升级过"),
    Text("Install the other side's version.", "安装另一侧的版本。"),
)
DATASET = _checker(
    "MSP604",
    "dataset differs",
    Text("the data differ", "数据集不同"),
    Text("The batches that the model is given differ.", "送入模型的 batch 不同。"),
    Text("By maximum, minimum, mean and norm of each batch.", "依据每个 batch 的最大值、最小值、均值与范数。"),
    Text("another order, shuffling or preprocessing", "顺序、打乱或预处理不同"),
    Text("Feed both runs one saved batch.", "让两次运行使用同一份保存的 batch。"),
)
WEIGHTS = _checker(
    "MSP605",
    "weights differs",
    Text("weights differ", "权重不同"),
    Text("Weights differ when the training begins.", "训练开始时权重不同。"),
    Text("By maximum, minimum, mean and norm of each parameter.", "依据每个权重的最大值、最小值、均值与范数。"),
    Text("another initialization or checkpoint", "初始化或加载的 checkpoint 不同"),
    Text("Load one checkpoint on both sides.", "两侧加载同一个 checkpoint。"),
)
RANDOM = _checker(
    "MSP606",
    "random differs",
    Text("random calls differ", "随机数调用不同"),
    Text(
        "A function that draws random numbers is called another number of times, or from another place.",
        "产生随机数的函数被调用的次数或位置不同。",
    ),
    Text("By counting the calls at each line.", "按代码行统计调用次数。"),
    Text("code that draws numbers on one side only", "仅一侧执行的随机数代码"),
    Text("Draw them on both sides, or set the seed again after that line.", "两侧都执行，或在该行之后重新设置种子。"),
)
CONTEXT = _checker(
    "MSP607",
    "context differs",
    Text("the context differs", "上下文配置不同"),
    Text("A setting of the framework's context has another value.", "框架上下文的某项设置不同。"),
    _BY_VALUE,
    Text("mode, precision or deterministic settings", "运行模式、精度或确定性设置"),
    _START_ALIKE,
)

KINDS = (HYPERPARAMETERS, ENV, PIP, DATASET, WEIGHTS, RANDOM, CONTEXT)
