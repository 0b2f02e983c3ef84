"""Kinds of findings of `msprobe doctor` about a training that has not begun: MSP801 to MSP822."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_DOCS = "how-to/collecting/doctor.md#before-a-training"
_AGAIN = Text("Run `msprobe doctor` again after the change.", "修改后再次运行 msprobe doctor。")
_installed = partial(
    Kind,
    severity=Severity.ERROR,
    decided=Text(
        "By the metadata of the installed packages; no framework is imported.",
        "依据已安装软件包的元数据，不导入任何框架。",
    ),
    look=Text("at `pip list` of this environment", "当前环境的 pip list"),
    confirm=_AGAIN,
    docs=_DOCS,
)
_folder = partial(
    Kind,
    severity=Severity.ERROR,
    decided=Text(
        "By writing, renaming and locking a small file in the folder, and by the numbers of its file system.",
        "在该文件夹中写入、重命名并锁定一个小文件，并读取其文件系统的数据。",
    ),
    look=Text("at `dump_path` and its file system", "dump_path 及其所在的文件系统"),
    confirm=_AGAIN,
    docs=_DOCS,
)
_setting = partial(
    Kind,
    severity=Severity.ERROR,
    decided=Text(
        "By the same checks that the debugger makes when the training starts.", "与训练开始时调试器所做的检查相同。"
    ),
    look=Text("at the setting in the configuration file", "配置文件中的该项设置"),
    confirm=_AGAIN,
    docs=_DOCS,
)

NEIGHBOUR = _installed(
    "MSP801",
    "neighbour",
    title=Text("two packages provide `msprobe`", "两个软件包都提供 msprobe"),
    means=Text(
        "Both mindstudio-probe and msprobe-ms are installed, and each provides the module `msprobe`.",
        "mindstudio-probe 与 msprobe-ms 同时安装，两者都提供模块 msprobe。",
    ),
    causes=(Text("one was installed into the environment of the other", "其中一个被装进了另一个所在的环境"),),
    message=Text(
        "{subject} {value} is installed next to msprobe-ms, both as `msprobe`; run `pip uninstall {subject} "
        "msprobe-ms`, then install the one that you want",
        "{subject} {value} 与 msprobe-ms 同时安装，且都提供 msprobe；请执行 pip uninstall {subject} msprobe-ms，再安装所需的一个",
    ),
)
MISSING = _installed(
    "MSP802",
    "missing package",
    title=Text("a package is missing", "缺少软件包"),
    means=Text(
        "A package that this tool or a framework requires is not installed.", "本工具或某个框架所需的软件包未安装。"
    ),
    causes=(Text("an installation without dependencies (`--no-deps`)", "安装时未安装依赖（--no-deps）"),),
    message=Text(
        "{reason} needs {subject}{expected}, which is not installed; run `pip install '{subject}{expected}'`",
        "{reason} 需要 {subject}{expected}，尚未安装；请执行 pip install '{subject}{expected}'",
    ),
)
VERSION = _installed(
    "MSP803",
    "unsupported version",
    title=Text("a version is not supported", "版本不受支持"),
    means=Text(
        "A package, or Python, has a version that this tool or a framework does not accept.",
        "软件包或 Python 的版本不被本工具或某个框架接受。",
    ),
    causes=(Text("an upgrade of one package alone", "单独升级了某个软件包"),),
    message={
        "package": Text(
            "{subject} {value} is installed, and {reason} needs {subject}{expected}; install such a version",
            "已安装 {subject} {value}，而 {reason} 需要 {subject}{expected}；请安装相应版本",
        ),
        "python": Text(
            "{subject} {value} runs here, and {reason} needs {subject} {expected}; install such a version",
            "当前为 {subject} {value}，而 {reason} 需要 {subject} {expected}；请安装相应版本",
        ),
    },
)
UNTESTED = _installed(
    "MSP804",
    "untested version",
    severity=Severity.NOTE,
    title=Text("a version was not tested", "版本未经测试"),
    means=Text("The version is newer or older than those that were tested.", "该版本比经过测试的版本更新或更旧。"),
    causes=(Text("a new release of a framework", "框架发布了新版本"),),
    look=Text("at the table of tested versions in reference/support.md", "reference/support.md 中经过测试的版本表"),
    message=Text(
        "{subject} {value} was not tested; tested is {expected}",
        "{subject} {value} 未经测试；测试过的版本为 {expected}",
    ),
)
TWO_TORCHES = _installed(
    "MSP805",
    "two packages torch",
    title=Text("two packages provide `torch`", "两个软件包都提供 torch"),
    means=Text(
        "PyTorch and msadapter are installed in one folder, and each provides `torch`.",
        "PyTorch 与 msadapter 装在同一文件夹，两者都提供 torch。",
    ),
    causes=(Text("MindTorch was installed into an environment with PyTorch", "把 MindTorch 装进了带 PyTorch 的环境"),),
    message=Text(
        "torch {value} and msadapter {expected} are installed in one folder, and both bring a module `torch`; "
        "uninstall both, then install the one that you want",
        "torch {value} 与 msadapter {expected} 装在同一文件夹，且都提供模块 torch；请全部卸载，再安装所需的一个",
    ),
)
NO_FRAMEWORK = _installed(
    "MSP806",
    "no framework",
    severity=Severity.NOTE,
    title=Text("no framework is installed", "未安装框架"),
    means=Text(
        "Neither MindSpore nor PyTorch is installed: dumps can be compared, and trainings cannot be collected.",
        "MindSpore 与 PyTorch 均未安装：可以比对 dump，但无法采集训练。",
    ),
    causes=(Text("a machine that is used for comparing only", "该机器只用于比对"),),
    message=Text(
        "neither MindSpore nor PyTorch is installed: dumps can be compared here, trainings cannot be collected",
        "未安装 MindSpore 或 PyTorch：可以比对 dump，但无法采集训练",
    ),
)
NO_EXTENSION = _installed(
    "MSP807",
    "no compiled extension",
    severity=Severity.WARNING,
    title=Text("a compiled extension is missing", "缺少编译的扩展"),
    means=Text(
        "A compiled module of this tool cannot be loaded; numpy replaces it and is several times slower.",
        "本工具的某个编译模块无法加载；由 numpy 代替，速度慢数倍。",
    ),
    causes=(Text("an installation from source without a C compiler", "从源码安装而没有 C 编译器"),),
    look=Text("at the import error in the finding", "该问题中给出的导入错误"),
    message=Text(
        "{subject} cannot be loaded ({reason}): numpy replaces it, with the same results and several times as "
        "slow; install a wheel for this Python, or install a C compiler and msprobe-ms again",
        "{subject} 无法加载（{reason}）：由 numpy 代替，结果相同但速度慢数倍；请安装适用于此 Python 的 wheel，或安装 C 编译器后重新安装 msprobe-ms",
    ),
)
NOT_A_FOLDER = _folder(
    "MSP808",
    "no folder",
    title=Text("`dump_path` is not a folder", "dump_path 不是文件夹"),
    means=Text(
        "A parent of `dump_path` is a file, so that nothing can be written there.",
        "dump_path 的某一级是文件，无法写入。",
    ),
    causes=(Text("a path of a file instead of a folder", "给出的是文件路径而非文件夹"),),
    message=Text(
        "{subject} is not a folder, so nothing can be written there; choose another dump_path",
        "{subject} 不是文件夹，无法写入；请另选 dump_path",
    ),
)
NOT_WRITABLE = _folder(
    "MSP809",
    "not writable",
    title=Text("`dump_path` is not writable", "dump_path 不可写"),
    means=Text("A file cannot be written to `dump_path`.", "无法在 dump_path 中写文件。"),
    causes=(
        Text(
            "missing permissions of the user, or a file system that is mounted read-only",
            "用户权限不足，或文件系统以只读方式挂载",
        ),
    ),
    message=Text(
        "{subject} cannot be written: {reason}; choose another dump_path, or give this user write permission",
        "无法写入 {subject}：{reason}；请另选 dump_path，或授予写权限",
    ),
)
LITTLE_SPACE = _folder(
    "MSP810",
    "little disk space",
    title=Text("there is little disk space", "磁盘空间不足"),
    means=Text(
        "The file system of `dump_path` has less than 1 GiB free.", "dump_path 所在文件系统的可用空间不足 1 GiB。"
    ),
    causes=(Text("earlier dumps", "之前的 dump"),),
    message=Text(
        "{subject} has {value} free, less than {expected}; free some space, or choose another dump_path",
        "{subject} 可用空间为 {value}，不足 {expected}；请腾出空间，或另选 dump_path",
    ),
)
FEW_FILES = _folder(
    "MSP811",
    "few free inodes",
    title=Text("there are few free inodes", "可用 inode 不足"),
    means=Text(
        "The file system of `dump_path` has room for fewer than 10,000 files; each tensor is a file.",
        "dump_path 所在文件系统可再容纳的文件不足 10,000 个；每个张量是一个文件。",
    ),
    causes=(Text("earlier dumps with tensors", "之前带张量的 dump"),),
    message=Text(
        "{subject} has room for {value} more files (inodes), and each tensor is a file; remove some, or choose "
        "another dump_path",
        "{subject} 还可容纳 {value} 个文件（inode），而每个张量是一个文件；请删除一些，或另选 dump_path",
    ),
)
BUDGET = _folder(
    "MSP812",
    "budget above disk space",
    title=Text("`disk_budget` exceeds the free space", "disk_budget 超过可用空间"),
    means=Text(
        "`disk_budget` allows more bytes than the file system has free.",
        "disk_budget 允许的字节数超过文件系统的可用空间。",
    ),
    causes=(Text("a budget for another machine", "该预算是为另一台机器设定的"),),
    message=Text(
        "{subject} has {value} free, less than the disk_budget of {expected}; lower it, or free some space",
        "{subject} 可用空间为 {value}，小于 disk_budget {expected}；请调低，或腾出空间",
    ),
)
NO_LOCKS = _folder(
    "MSP813",
    "no file locks",
    severity=Severity.WARNING,
    title=Text("the file system does not lock files", "文件系统不支持文件锁"),
    means=Text(
        "Dumps can be written, but two runs that write to one `dump_path` are not kept separate.",
        "可以写入 dump，但无法防止两次运行写入同一个 dump_path。",
    ),
    causes=(Text("a network file system without a lock service", "没有锁服务的网络文件系统"),),
    message=Text(
        "the file system of {subject} has no file locks: a dump is written, and two runs that write to one "
        "dump_path are not kept separate; give each run its own",
        "{subject} 所在文件系统不支持文件锁：可以写入 dump，但无法防止两次运行写入同一 dump_path；请为每次运行使用单独的 dump_path",
    ),
)
OTHER_RUN = _folder(
    "MSP814",
    "another run",
    severity=Severity.NOTE,
    title=Text("`dump_path` has another run", "dump_path 中已有其他运行"),
    means=Text(
        "The folder has files of an earlier run, which remain; this run writes to run2, run3, ...",
        "该文件夹中有之前运行的文件，会保留；本次运行写入 run2、run3 等文件夹。",
    ),
    causes=(Text("the training is repeated with the same configuration", "以相同配置重复训练"),),
    message=Text(
        "{subject} has files of another run, which remain; this run writes to a folder inside: run2, run3...",
        "{subject} 中有其他运行的文件，会保留；本次运行写入其中的文件夹：run2、run3……",
    ),
)
REFUSED = _setting(
    "MSP815",
    "refused",
    title=Text("a setting is refused", "设置被拒绝"),
    means=Text(
        "The debugger raises an error for this setting when the training starts.", "训练开始时，调试器会因该设置报错。"
    ),
    causes=(
        Text(
            "a misspelled key, an invalid value, or settings that contradict each other",
            "键名拼写错误、取值无效或设置相互矛盾",
        ),
    ),
    message=Text("{reason}", "{reason}"),
)
DEPENDS = _setting(
    "MSP816",
    "refused in some modes",
    severity=Severity.NOTE,
    title=Text("a setting is refused in some modes", "设置在某些模式下被拒绝"),
    means=Text(
        "The setting is refused in an execution mode that the training may have.",
        "训练可能采用的某种执行模式下，该设置会被拒绝。",
    ),
    causes=(Text("`--mode` was not given", "未给出 --mode"),),
    look=Text("at the execution mode of the training; give it with --mode", "训练的执行模式；用 --mode 给出"),
    message=Text("if the training runs in {value}: {reason}", "若训练以 {value} 运行：{reason}"),
)
WITHOUT_EFFECT = _setting(
    "MSP817",
    "without effect",
    title=Text("a setting has no effect", "设置不起作用"),
    means=Text(
        "The setting is valid and changes nothing with this task, level or framework.",
        "该设置有效，但在此 task、level 或框架下不起作用。",
    ),
    causes=(Text("a setting of another task or level", "属于其他 task 或 level 的设置"),),
    message=Text("{subject}: the setting has no effect here: {reason}", "{subject}：该设置在此不起作用：{reason}"),
)
TAKEN_AS = _setting(
    "MSP818",
    "taken as",
    title=Text("a setting is replaced", "设置被替换"),
    means=Text("Another value is used instead of the one that was given.", "实际使用的是另一个值。"),
    causes=(Text("a level that the task or the mode does not support", "该 task 或模式没有此 level"),),
    message=Text(
        "{subject}: {value} is taken as {expected}{because}", "{subject}：{value} 按 {expected} 处理{because}"
    ),
)
PATTERN = _setting(
    "MSP819",
    "pattern matches nothing",
    title=Text("a pattern matches no call", "匹配不到任何调用"),
    means=Text(
        "An entry of `list` or `scope` cannot match any call that is collected.",
        "list 或 scope 的某一项无法匹配任何被采集的调用。",
    ),
    causes=(Text("a name of the other framework, or of another level", "另一框架或另一 level 的名称"),),
    message=Text("{subject}: {value} matches no call: {reason}", "{subject}：{value} 匹配不到任何调用：{reason}"),
)
RANKS = _setting(
    "MSP820",
    "ranks that do not exist",
    title=Text("ranks do not exist", "rank 不存在"),
    means=Text("`rank` has numbers that the training does not have.", "rank 中含有训练没有的编号。"),
    causes=(Text("ranks are counted from 0", "rank 从 0 开始计数"),),
    message=Text(
        "{subject}: there are {expected} ranks, counted from 0, so rank {value} does not exist{because}",
        "{subject}：共有 {expected} 个 rank，从 0 计数，没有 rank {value}{because}",
    ),
)
STEPS = _setting(
    "MSP821",
    "steps that do not exist",
    title=Text("steps do not exist", "step 不存在"),
    means=Text("`step` has numbers that the training does not have.", "step 中含有训练没有的编号。"),
    causes=(Text("steps are counted from 0", "step 从 0 开始计数"),),
    message=Text(
        "{subject}: the training has {expected} steps, counted from 0, so step {value} does not exist{because}",
        "{subject}：训练有 {expected} 个 step，从 0 计数，没有 step {value}{because}",
    ),
)
NEEDS_CALL = _setting(
    "MSP822",
    "needs a call",
    severity=Severity.NOTE,
    title=Text("the training must make a call", "训练需要调用接口"),
    means=Text(
        "With this task or level, only values that the training passes to the debugger are collected.",
        "在此 task 或 level 下，只采集训练传给调试器的值。",
    ),
    causes=(Text("none; this is a reminder", "没有问题，仅作提醒"),),
    look=Text(
        "at the training: it calls `monitor(optimizer)`, or `save(value, name)`",
        "训练代码：需要调用 monitor(optimizer) 或 save(value, name)",
    ),
    message=Text(
        "{subject}: with {value}, only values that the training passes to {expected} are collected",
        "{subject}：使用 {value} 时，只采集训练传给 {expected} 的值",
    ),
)
