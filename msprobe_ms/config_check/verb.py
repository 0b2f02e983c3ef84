"""Pack the configuration of a run, compare two packs, or compare two checkpoints.

  msprobe config-check -d [train.sh config.yaml ...] [-o pack.zip]     pack
  msprobe config-check -d [train.sh config.yaml ...] --dry-run         print the contents of a pack
  msprobe config-check -c bench.zip cmp.zip [-o DIR]                   compare two packs
  msprobe config-check -c A B [-o FILE] [-dm names.yaml] [--standard NAME]   compare two checkpoints

A pack contains the environment, the packages, and the settings in scripts and YAML files, without secrets;
`ConfigChecker` (from msprobe.core.config_check) also packs inputs, weights, random calls and the framework's settings
of a training. The comparison of packs writes DIR/result.xlsx, with one sheet per checker.

Of two checkpoints, A is under suspicion, B is trusted. Each is a .ckpt of MindSpore, a .safetensors, a .pt, .pth or
.bin of PyTorch, or a folder: shards with their index, rank_0, rank_1, ..., or a layout of Megatron-LM.

Standard output lists the relevant differences, the most important one in the last line. Exit code 0: everything was
compared and passes. 1: something differs, or could not be compared. 2: the command was wrong, or an input cannot be
read.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from msprobe.base.errors import UsageError
from msprobe.base.files import make_folder, refuse_existing, writing
from msprobe.base.language import translated
from msprobe.base.log import terminal_line
from msprobe.compare.core.standard import ACCEPTANCES, DTYPE
from msprobe.options.declaration import OUTPUT, option
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import FLAG, TEXT, one_of, several, whole
from msprobe.store import config_pack

PACK = "./config_check_pack.zip"
RESULT = "./config_check_result"
ANOTHER = "give another file with -o"

_LISTED = 20  # redacted places that are printed for each entry

_NOT_BUILT = (
    "logs of other trainers are not compared; pack both runs with -d, and compare the packs with -c",
    "不比对其他训练框架的日志；请用 -d 打包两次运行，再用 -c 比对",
)
REFUSED = dict.fromkeys(("-vc", "--verl-compare", "-vv", "--verl-verify", "-sc", "--slime-compare"), _NOT_BUILT)
"""Flags of msprobe 26 for functions that are not available."""


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    REFUSED: ClassVar[dict[str, tuple[str, str]]] = REFUSED

    dump: tuple[str, ...] | None = option(
        several("FILE", "any"),
        "-d",
        "--dump",
        help="pack: shell scripts and YAML files with the settings of the run",
        zh="打包：含运行设置的 shell 脚本和 YAML 文件",
    )
    compare: tuple[str, ...] | None = option(
        several("A B", 2),
        "-c",
        "--compare",
        help="compare two packs, or two checkpoints",
        zh="比对两个打包文件或两个 checkpoint",
    )
    output: str = option(
        TEXT,
        "-o",
        "--output",
        metavar="PATH",
        default="",
        role=OUTPUT,
        help=f"default: {PACK} with -d, {RESULT} for two packs, ./ckpt_similarity.json for two checkpoints",
        zh=f"默认：-d 为 {PACK}，两个打包文件为 {RESULT}，两个 checkpoint 为 ./ckpt_similarity.json",
    )
    data_mapping: str = option(
        TEXT,
        "-dm",
        "--data-mapping",
        metavar="YAML",
        default="",
        help="names and layouts of checkpoint parameters, or of all parameters below a path, for example "
        "`backbone.layers: model.h`",
        zh="checkpoint 中参数的名称和布局，或某路径下的全部参数，例如 `backbone.layers: model.h`",
    )
    dry_run: bool = option(
        FLAG,
        "--dry-run",
        default=False,
        help="with -d: print the contents of the pack without writing it",
        zh="与 -d 一起使用：打印将打包的内容，不写文件",
    )
    standard: str = option(
        one_of(DTYPE, *ACCEPTANCES),
        "--standard",
        default="",
        help="limits for checkpoints: dtype (default), for equal weights; msprobe, for weights after many steps: "
        "cosine at least 0.99, l2 below 1",
        zh="checkpoint 的阈值：dtype（默认）用于相同的权重；msprobe 用于多步之后的权重：cosine 不小于 0.99，l2 小于 1",
    )
    top: int = option(
        whole(0),
        "--top",
        default=10,
        role=OUTPUT,
        help="list at most N of the largest differences",
        zh="最多列出 N 个最大的差异",
    )

    def check(self) -> None:
        """Raise UsageError where both tasks are given."""
        if self.dump is not None and self.compare is not None:
            raise UsageError(
                translated(
                    "-d (pack) and -c (compare) exclude each other; give only one", "-d 打包，-c 比对；请只给出一个"
                )
            )
        super().check()


def run(options: Options) -> int:
    """Pack, or compare; print the answer."""
    if options.dump is not None:
        _refuse_mapping(options, "-d")
        return _pack([Path(path) for path in options.dump], Path(options.output or PACK), options)
    if options.dry_run:
        raise UsageError(translated("--dry-run requires -d", "--dry-run 用于打包；请与 -d 一起使用"))
    if not options.compare:
        raise UsageError(
            translated(
                "give -d [FILE ...] to pack, or --compare A B to compare two packs or two checkpoints",
                "请给出 -d [FILE ...] 以打包，或 --compare A B 以比对两个包或两个 checkpoint",
            )
        )
    zips = [path.lower().endswith(".zip") for path in options.compare]
    if any(zips):
        if not all(zips):
            raise UsageError(
                translated(
                    "--compare takes two packs (.zip) or two checkpoints; a pack cannot be compared with a checkpoint",
                    "--compare 需要两个包（.zip）或两个 checkpoint；包与 checkpoint 不能相互比对",
                )
            )
        _refuse_mapping(options, "of two packs")
        bench, cmp = map(Path, options.compare)
        return _compare_packs(bench, cmp, Path(options.output or RESULT), options)
    from msprobe.compare.checkpoint import verb  # here, because the help of the command does not import numpy

    return verb.run(
        *map(Path, options.compare),
        output=options.output,
        data_mapping=options.data_mapping,
        standard=options.standard,
        top=options.top,
        is_json=options.is_json,
    )


def _refuse_mapping(options: Options, where: str) -> None:
    for flag, value in (("--data-mapping", options.data_mapping), ("--standard", options.standard)):
        if value:
            raise UsageError(
                translated(
                    f"{flag} applies only to two checkpoints and has no effect {where}; omit it",
                    f"{flag} 只针对两个 checkpoint；请去掉",
                )
            )


def _pack(scripts: list[Path], output: Path, options: Options) -> int:
    if output.suffix != ".zip":
        raise UsageError(translated(f"{output}: a pack must end in .zip", f"{output}：包的文件名必须以 .zip 结尾"))
    if not options.dry_run:
        refuse_existing(output, ANOTHER)
    from msprobe.base.redaction import Redactor

    from .pack_writer import write_zip
    from .static import entries, of_scripts

    redactor = Redactor()
    found = entries(of_scripts(scripts, redactor), redactor)
    if not options.dry_run:
        with writing(output, ANOTHER):
            make_folder(output.parent)
            write_zip(output, found)
    redacted = json.loads(found[config_pack.ABOUT])[config_pack.REDACTED]
    last = "nothing was written (--dry-run)" if options.dry_run else f"packed {', '.join(found)}: {output}"
    if options.is_json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        files: dict[str, Path] = {} if options.dry_run else {"pack": output}
        contents = {name: content.decode("utf-8", "replace") for name, content in found.items()}
        details = {"entries": contents if options.dry_run else list(found), "redacted": redacted}
        printed(Document("config-check", Answer("shown", last), Verdicts(), 0, files=files, details=details))
        return 0
    for name, content in found.items() if options.dry_run else ():
        print(f"{name}:")
        for line in content.decode("utf-8", "replace").splitlines():
            print(terminal_line(f"  {line}"))
    for entry, places in redacted.items():
        more = f" and {len(places) - _LISTED} more, listed in pack.json" if len(places) > _LISTED else ""
        print(terminal_line(f"redacted in {entry}: {', '.join(places[:_LISTED])}{more}"))
    print(terminal_line(last))
    return 0


def _compare_packs(bench: Path, cmp: Path, output: Path, options: Options) -> int:
    from msprobe.compare.config_check.compare import compare_packs

    compared = compare_packs(bench, cmp, output)
    verdicts = compared.verdicts
    if options.is_json:
        from msprobe.compare.config_check.report import answer_of, counts_of
        from msprobe.findings.document import Document, printed

        details = {"bench": str(bench), "cmp": str(cmp)}
        files = {"table": compared.result}
        answer = answer_of(compared)
        printed(Document("config-check", answer, verdicts, verdicts.exit_code, counts_of(compared), files, details))
        return verdicts.exit_code
    from msprobe.compare.config_check.report import lines

    print(terminal_line(f"every row: {compared.result}"))
    for line in lines(compared, options.top):
        print(terminal_line(line))
    return verdicts.exit_code
