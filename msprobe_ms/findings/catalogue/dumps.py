"""Kinds of findings about the files of a dump, of `msprobe doctor DIR` and `msprobe convert`: MSP831 to MSP842."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_COPY = Text(
    "Copy the files again from the machine that wrote them, and run `msprobe doctor` again.",
    "从写入它们的机器重新复制文件，再次运行 msprobe doctor。",
)
_COLLECT = Text(
    "Collect the step again, or compare without what is lost.", "重新采集该 step，或在缺少该部分的情况下比对。"
)
_kind = partial(
    Kind,
    severity=Severity.ERROR,
    decided=Text(
        "Every file of the dump is read; of tensors the header, of packed ones also the digest.",
        "读取 dump 的每个文件；张量读取文件头，打包的张量还检验摘要。",
    ),
    look=Text("at the files of this folder", "该文件夹中的文件"),
    docs="how-to/collecting/doctor.md#actions",
)

UNREADABLE_DUMP = _kind(
    "MSP831",
    "unreadable dump",
    title=Text("a dump cannot be read", "dump 无法读取"),
    means=Text("The file of the dump is damaged, incomplete, or not a dump.", "dump 的文件损坏、不完整，或不是 dump。"),
    causes=(
        Text("an interrupted copy", "复制被中断"),
        Text("a full disk", "磁盘已满"),
    ),
    confirm=_COPY,
)
UNREADABLE_FOLDER = _kind(
    "MSP832",
    "unreadable folder",
    severity=Severity.WARNING,
    title=Text("a folder cannot be read", "文件夹无法读取"),
    means=Text(
        "The folder cannot be listed, so that its dumps were not examined.", "无法列出该文件夹，因而未检查其中的 dump。"
    ),
    causes=(Text("missing permissions of the user", "用户权限不足"),),
    confirm=Text("Give this user read permission, and run the command again.", "授予读取权限后再次运行该命令。"),
)
NO_DUMP = _kind(
    "MSP833",
    "rank without a dump",
    title=Text("a rank has no dump", "某个 rank 没有 dump"),
    means=Text(
        "The folder of a rank or step has no dump, and other ranks have one.",
        "该 rank 或 step 的文件夹没有 dump，而其他 rank 有。",
    ),
    causes=(
        Text("a process that died before its first call", "进程在首个调用之前退出"),
        Text("an incomplete copy", "复制不完整"),
    ),
    confirm=_COPY,
)
STILL_WRITING = _kind(
    "MSP834",
    "still written",
    severity=Severity.WARNING,
    title=Text("the dump is still being written", "仍有进程在写入该 dump"),
    means=Text(
        "The journal of the dump is locked by a running process; it was not examined.",
        "dump 的 journal 被运行中的进程锁定，未做检查。",
    ),
    causes=(
        Text("the training is still running", "训练仍在运行"),
        Text("a process that hangs", "进程挂起"),
    ),
    confirm=Text("Run the command again when the process has ended.", "进程结束后再次运行该命令。"),
)
NOT_REBUILT = _kind(
    "MSP835",
    "not rebuilt",
    title=Text("a dump was not rebuilt", "dump 未能重建"),
    means=Text(
        "The journal cannot be turned into the files of a dump; it remains.",
        "无法由 journal 生成 dump 的文件；journal 保留。",
    ),
    causes=(
        Text("a damaged journal", "journal 损坏"),
        Text("a full disk", "磁盘已满"),
    ),
    confirm=Text(
        "Remove the cause in the message, and run the command again.", "消除消息所指出的原因，再次运行该命令。"
    ),
)
LOST_TENSORS = _kind(
    "MSP836",
    "lost tensors",
    title=Text("tensors are lost", "张量丢失"),
    means=Text(
        "Tensors of the dump are missing, damaged, or have a different shape than their records.",
        "dump 的记录所指的张量缺失、损坏或形状不同。",
    ),
    causes=(
        Text("a process that died before they were written", "写入之前进程已退出"),
        Text("an interrupted copy", "复制被中断"),
    ),
    confirm=_COLLECT,
)
LOST_COMPANION = _kind(
    "MSP837",
    "lost structure",
    title=Text("stack.json or construct.json is lost", "stack.json 或 construct.json 丢失"),
    means=Text(
        "Call stacks or enclosing modules of the dump are missing or damaged.", "dump 的调用栈或所属模块缺失或损坏。"
    ),
    causes=(Text("only dump.json was copied", "只复制了 dump.json"),),
    confirm=_COPY,
)
NOT_COLLECTED = _kind(
    "MSP838",
    "not collected",
    title=Text("some data were not collected", "部分内容未被采集"),
    means=Text("The collection recorded that it omitted data.", "采集过程自身记录了遗漏的内容。"),
    causes=(Text("a failure while collecting, see the log of the training", "采集时的失败，训练日志中有记录"),),
    confirm=_COLLECT,
)
ODD_STATISTICS = _kind(
    "MSP839",
    "odd statistics",
    title=Text("statistics are not numeric", "统计量不是数值"),
    means=Text(
        "Records have statistics that are not numeric; they cannot be compared.", "部分记录的统计量不是数值，无法比对。"
    ),
    causes=(Text("a file that was edited or damaged", "文件被修改或损坏"),),
    confirm=_COPY,
)
UNCHECKED_DIGESTS = _kind(
    "MSP840",
    "digests not checked",
    severity=Severity.WARNING,
    title=Text("digests cannot be checked", "无法检验摘要"),
    means=Text(
        "The digests of packed tensors need a package that is not installed.", "检验打包张量的摘要所需的软件包未安装。"
    ),
    causes=(Text("an installation without the extra `fast`", "安装时未带 fast 选项"),),
    confirm=Text(
        "Install the package in the message, and run the command again.",
        "安装消息所指的软件包，再次运行该命令。",
    ),
)
NOT_SPLIT = _kind(
    "MSP841",
    "not split",
    title=Text("a pack was not split", "打包文件未能拆分"),
    means=Text(
        "The tensors of a pack could not be written as separate files; the pack remains.",
        "打包的张量无法写成单独的文件；打包文件保留。",
    ),
    causes=(
        Text("a full disk", "磁盘已满"),
        Text("damaged tensors", "张量损坏"),
    ),
    confirm=Text("Free some space, and run the command again.", "腾出空间后再次运行该命令。"),
)
NOT_CARRIED = _kind(
    "MSP842",
    "not converted",
    title=Text("something was not converted", "部分内容未转换"),
    means=Text(
        "A part of the dump is not in the converted one; the original still has it.",
        "dump 的某个部分不在转换结果中；原 dump 仍保留。",
    ),
    causes=(
        Text("a damaged file", "文件损坏"),
        Text("a link, which is not followed", "链接，不跟随"),
    ),
    confirm=Text("Keep the original, and run `msprobe doctor` on it.", "保留原 dump，并对其运行 msprobe doctor。"),
    docs="how-to/collecting/convert.md",
)
