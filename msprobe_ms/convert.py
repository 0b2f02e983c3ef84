"""Convert a dump between JSON and npy files, packed files, and columnar files; the contents are unchanged.

  msprobe convert DUMP -o OUT --to columnar
  msprobe convert DUMP -o OUT --to packed
  msprobe convert DUMP -o OUT --to json

DUMP is a dump_path, the folder of a step or of a rank, or a dump.json or dump.parquet. OUT must not exist; it receives
the same folders, and a copy of every other file. Columnar dumps need pyarrow: pip install 'msprobe-ms[columnar]'. DUMP
is not changed. Entries that cannot be converted are listed; the last line has their number.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import make_folder, refuse_existing, writing
from msprobe.base.language import translated
from msprobe.base.log import terminal_line
from msprobe.base.verdicts import Gap, Verdicts
from msprobe.findings.catalogue.dumps import NOT_CARRIED
from msprobe.findings.document import Document, printed
from msprobe.findings.finding import Answer, Finding, Place
from msprobe.options.declaration import option, positional
from msprobe.options.groups import JsonAnswer, output_option
from msprobe.options.kinds import PATH, one_of
from msprobe.store import layout
from msprobe.store.arrow import require_pyarrow
from msprobe.store.conversion import is_packed, to_columnar, to_json, to_packed
from msprobe.store.folders import folders_below

_MAX_LISTED = 20
"""Maximum number of losses that are listed."""

_WRITTEN = (*layout.DATA_FILES, layout.STACK, layout.CONSTRUCT, layout.TENSORS)


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    dump: Path = positional(
        PATH,
        "DUMP",
        help="a dump_path, the folder of a step or of a rank, or the file of a dump",
        zh="dump_path、某个 step 或 rank 的文件夹，或 dump 文件",
    )
    output: Path = output_option(
        metavar="OUT", required=True, help="a folder that does not exist yet", zh="尚不存在的文件夹"
    )
    to: str = option(
        one_of("json", "packed", "columnar"), "--to", required=True, help="the format of OUT", zh="OUT 的格式"
    )


def run(options: Options) -> int:
    """Convert all dumps in DUMP and its subfolders. UsageError if there is none, or if OUT exists."""
    dump, out = options.dump, options.output
    named = (layout.DUMP, layout.DEBUG) if options.to != "json" else (*layout.TABLES, layout.DUMP, layout.DEBUG)
    root = dump.parent if dump.is_file() else dump
    if not root.is_dir():
        raise UsageError(
            translated(
                f"{dump}: no such file or folder; give a dump_path, or the folder of a step or rank",
                f"{dump}：没有该文件或文件夹；请给出 dump_path，或某个 step、rank 的文件夹",
            )
        )
    lost: dict[str, str] = {}
    unreadable: dict[Path, str] = {}
    folders = [folder for folder, _ in folders_below(root, unreadable)]
    lost.update((f"{folder}", f"cannot be read ({cause})") for folder, cause in unreadable.items())
    found = {folder: [file for name in named if _is_other(file := folder / name, options.to)] for folder in folders}
    for folder in found:
        if (folder / layout.JOURNAL).exists():
            raise UsageError(f"{folder}: contains an unfinished dump; run `msprobe doctor {folder}` first")
    if not any(found.values()):
        raise UsageError(
            f"{dump}: neither it nor any folder below contains a dump in a format other than {options.to}; give "
            "another dump"
        )
    refuse_existing(out, "give a new folder with -o")
    if out.absolute().is_relative_to(root.absolute()):
        raise UsageError(
            translated(
                f"{out}: is inside the folder to convert; give another folder with -o",
                f"{out}：位于被转换的文件夹之内；请用 -o 给出其他文件夹",
            )
        )
    if options.to == "columnar" or any(file.name in layout.TABLES for files in found.values() for file in files):
        require_pyarrow("columnar dumps are read and written with pyarrow", UsageError)
    before = after = 0
    verdicts = Verdicts(gaps={Gap.UNREADABLE_FOLDER: len(unreadable)})
    for folder, files in found.items():
        into = out / folder.relative_to(root)
        with writing(into):
            make_folder(into)
            for file in files:
                try:
                    lost_here = _CONVERSIONS[options.to](file, into)
                    verdicts += Verdicts(wrong=1) if lost_here else Verdicts(fine=1)
                except DumpError as err:
                    lost_here = {file.name: f"not converted: {err}"}
                    verdicts += Verdicts(gaps={Gap.UNREADABLE_DUMP: 1})
                lost.update((f"{folder / name}", cause) for name, cause in lost_here.items())
            links = _copy_others(folder, into, is_converted=bool(files))
            lost.update(links)
            verdicts += Verdicts(wrong=len(links))
        before, after = before + _size(folder), after + _size(into)
    count = sum(map(len, found.values()))
    answer = f"{out}: {count} dumps, {_mebibytes(before)} converted to {_mebibytes(after)}"
    if lost:
        answer += f"; {len(lost)} LOST, their remaining files are still in {dump}"
    reasons = {name: cause if name in cause else f"{name}: {cause}" for name, cause in lost.items()}
    if options.is_json:
        findings = [Finding(NOT_CARRIED, Place(name), reason) for name, reason in reasons.items()]
        made = Answer("differs" if findings else "shown", answer, next(iter(findings), None), tuple(findings[1:]))
        details = {"dumps": count, "bytes_before": before, "bytes_after": after}
        printed(Document("convert", made, verdicts, verdicts.exit_code, files={"dumps": out}, details=details))
        return verdicts.exit_code
    for reason in list(reasons.values())[:_MAX_LISTED]:
        print(terminal_line(f"LOST: {reason}"))
    if len(lost) > _MAX_LISTED:
        print(f"LOST: and {len(lost) - _MAX_LISTED} more")
    print(terminal_line(answer))
    return verdicts.exit_code


_CONVERSIONS = {"json": to_json, "packed": to_packed, "columnar": to_columnar}


def _is_other(file: Path, form: str) -> bool:
    """Return whether a file exists and is of a dump in another format, which can be converted to `form`."""
    if not file.is_file():
        return False
    if file.name in layout.TABLES:
        return form == "json"
    return form == "columnar" or is_packed(file) == (form == "json")


def _copy_others(folder: Path, into: Path, is_converted: bool) -> dict[str, str]:
    """Copy all files except those of a converted dump; return links, which are not followed, with the reason."""
    lost = {}
    for entry in sorted(folder.iterdir()):
        if is_converted and entry.name in _WRITTEN:
            continue
        if entry.is_symlink():
            lost[str(entry)] = "is a symbolic link, which is not followed"
            continue
        if entry.is_file():
            shutil.copyfile(entry, into / entry.name)
        elif entry.name == layout.TENSORS:
            shutil.copytree(entry, into / entry.name)
    return lost


def _size(folder: Path) -> int:
    inside = (*folder.iterdir(), *(folder / layout.TENSORS).glob("*"))
    return sum(entry.stat().st_size for entry in inside if entry.is_file())


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
