"""Compare the log-probs of generation with those recomputed by training, and report the likely cause.

  msprobe rollout-check rollout.npz [--generated KEY --recomputed KEY --mask KEY --tokens KEY ...]
  msprobe rollout-check --generated A.npy --recomputed B.npy --mask M.npy
  msprobe rollout-check RUN [--generated rollout_log_prob --recomputed old_log_prob --mask response_mask ...]

RUN is a folder with a subfolder `data`, as written by MsProbe, SingleSave and save; steps, ranks and micro steps are
concatenated. Arrays that are not given are searched by their default names; an empty name ('') omits an array. The
result is printed; its last line has the verdict. Tables by sample and by position are written to the folder of -o.

Exit code 0: both sides are equal within float32 rounding. 1: they differ, also by 16-bit rounding, or something could
not be judged. 2: the command was wrong, or an input cannot be read or does not contain log-probs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import terminal_line
from msprobe.options.declaration import OUTPUT, option, positional
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import PATH, TEXT, one_of, whole


def _array(flag: str, help: str, zh: str) -> Any:
    """Return the name of an array; an empty name means that there is no such array."""
    return option(TEXT, flag, metavar="NAME", may_be_empty=True, help=help, zh=zh)


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    source: Path | None = positional(
        PATH,
        "FILE.npz|RUN",
        default=None,
        help="the file with the arrays, or the folder of a run with key data",
        zh="含各数组的文件，或带关键数据的运行的文件夹",
    )
    generated: str | None = _array(
        "--generated",
        "log-probs of generation, default: `generated`, else `rollout_log_prob`",
        "生成时的 log-prob，默认 `generated`，否则 `rollout_log_prob`",
    )
    recomputed: str | None = _array(
        "--recomputed",
        "log-probs of training, default: `recomputed`, else `old_log_prob`",
        "训练重新计算的 log-prob，默认 `recomputed`，否则 `old_log_prob`",
    )
    tokens: str | None = _array(
        "--tokens",
        "token ids of both sides, default: `tokens`, else `responses`",
        "两侧的 token id，默认 `tokens`，否则 `responses`",
    )
    generated_tokens: str | None = _array("--generated-tokens", "token ids of generation", "生成侧的 token id")
    recomputed_tokens: str | None = _array("--recomputed-tokens", "token ids of training", "训练侧的 token id")
    mask: str | None = _array(
        "--mask",
        "mask of both sides, 1 for response tokens, default: `mask`, else `response_mask`",
        "两侧的掩码，属于回答的元素为 1，默认 `mask`，否则 `response_mask`",
    )
    generated_mask: str | None = _array("--generated-mask", "mask of generation", "生成侧的掩码")
    recomputed_mask: str | None = _array("--recomputed-mask", "mask of training", "训练侧的掩码")
    lengths: str | None = _array(
        "--lengths",
        "number of response tokens of each sample, for packed arrays and for matrices without a mask",
        "每个样本的回答 token 数，用于打包的数组和没有掩码的矩阵",
    )
    prompt_lengths: str | None = _array(
        "--prompt-lengths", "number of prompt tokens of each sample", "每个样本的提示 token 数"
    )
    steps: str | None = _array(
        "--steps",
        "training step of each sample, if it differs from the step of the run",
        "每个样本的训练 step，与运行的 step 不同时使用",
    )
    output: Path = option(
        PATH,
        "-o",
        "--output",
        metavar="FOLDER",
        default=Path("./rollout_check"),
        role=OUTPUT,
        help="folder for the tables",
        zh="各表所在的文件夹",
    )
    format: str = option(
        one_of("xlsx", "csv", "json"),
        "--format",
        default="xlsx",
        role=OUTPUT,
        help="format of the tables",
        zh="表的格式",
    )
    top: int = option(
        whole(0),
        "--top",
        default=5,
        role=OUTPUT,
        help="list at most N of the worst samples",
        zh="最多列出 N 个最差的样本",
    )


def run(options: Options) -> int:
    """Read, compare, write the tables, print the answer."""
    if options.source is None and not (options.generated and options.recomputed):
        raise UsageError(
            translated(
                "give an npz file, the folder of a run, or --generated A.npy --recomputed B.npy",
                "请给出 npz 文件、一次运行的文件夹，或 --generated A.npy --recomputed B.npy",
            )
        )
    from .alignment import align  # here: the help of the command does not need numpy
    from .diagnosis import diagnose
    from .entry import answer_of, document_of, write
    from .read import USUAL, read

    names = {name: getattr(options, name) for name in USUAL}
    for both in ("tokens", "mask"):
        for name in (f"generated_{both}", f"recomputed_{both}"):
            names[name] = getattr(options, both) if names[name] is None else names[name]
    sides = read(options.source, names)
    result = diagnose(align(sides.generated, sides.recomputed, sides.prompts, sides.steps), sides.lost)
    written = write(result, options.output, options.format)
    if options.is_json:
        from msprobe.findings.document import printed

        printed(document_of(result, written))
        return result.verdicts.exit_code
    for line in result.lines(options.top):
        print(terminal_line(line))
    print(terminal_line(f"written: {', '.join(map(str, written.values()))}"))
    print(terminal_line(answer_of(result).line))
    return result.verdicts.exit_code
