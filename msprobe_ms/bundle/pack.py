"""Make a bundle: compare, note all texts, write both sides without what is private, compare these, and zip them."""

import json
import os
import platform
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.files import (
    MAX_CONFIGURATION_BYTES,
    creating,
    make_folder,
    open_input,
    read_input,
    user_path,
    writing,
)
from msprobe.base.log import terminal_line
from msprobe.base.version import tool
from msprobe.compare.jobs.plan import Place, side
from msprobe.compare.request import Request
from msprobe.store import bundle
from msprobe.store.detect import kind_of
from msprobe.store.reader import read_head

from .answer import Answer, answer_of, differing, without_message, write_table
from .dumps import Packed, Tensors, format_of, packed_side, read_texts, write_side
from .privacy import Privacy

ANOTHER = "give another file with -o"

_LIBRARIES = (
    *("numpy", "PyYAML", "openpyxl", "mindspore", "msadapter", "torch", "torch-npu"),
    *("pyarrow", "isal", "xxhash", "tqdm", "distributed"),
)
_DATE = (1980, 1, 1, 0, 0, 0)
_PIECE = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """What is packed: both sides, the options of the comparison that were given, by their names in the parsed command
    line, and what of tensors and texts. `request_of` makes the request of two sides and options."""

    target: Path
    golden: Path
    options: Mapping[str, Any]
    request_of: Callable[[Path, Path, Mapping[str, Any]], Request]
    tensors: str = "none"
    anonymous: bool = False


@dataclass(frozen=True)
class Made:
    """What came of packing. `entries` are names and sizes; `differ` is in how many places the answers differ, `pairs`
    how many pairs of records the answer is about; `tensors` are packed, `skipped` are not; `replaced` counts texts by
    kind."""

    entries: dict[str, int]
    size: int
    answer: Answer
    differ: int
    pairs: int
    tensors: int
    skipped: int
    replaced: dict[str, int]
    left_out: dict[str, str]

    @property
    def is_faithful(self) -> bool:
        """Return whether the bundle gives the verdicts of the dumps, with nothing left out."""
        return not self.differ and not self.left_out


def make_bundle(wanted: Wanted, output: Path | None) -> Made:
    """Pack two sides into the file `output`; None writes nothing.

    UsageError for options that are invalid, sides that cannot be packed, or a file that cannot be written; DumpError
    for a path that holds nothing.
    """
    request = wanted.request_of(wanted.target, wanted.golden, wanted.options)
    packed = _sides(request, wanted.tensors)
    with TemporaryDirectory(prefix="msprobe-bundle-") as temporary:
        work = Path(temporary).resolve()
        stage, privacy = work / "stage", Privacy(os.environ, wanted.anonymous)
        with writing(work, "set TMPDIR to a folder on a larger disk"):
            answer = answer_of(request, work / "answer", is_shown=True)
            files = _files_of(wanted.options)
            for each in packed:
                read_texts(each, privacy)
            for text in files.values():
                for line in text.splitlines():
                    privacy.see(line)
            for text in (*answer.log, answer.failure, *answer.traceback.splitlines()):
                privacy.see(text)
            privacy.settle()
            tensors = Tensors(wanted.tensors)
            left_out: dict[str, str] = {}
            for each in packed:
                left_out |= write_side(each, stage, privacy, tensors)
            left_out |= {name: privacy.output(why) for name, why in tensors.left_out.items()}
            stored = _stored(wanted.options, files, stage, privacy)
            again = _answer_of_bundle(wanted, stored, packed, stage, work / "again")
            differ, pairs = differing(answer, again, privacy.name)
            shown = answer
            if wanted.anonymous:  # what the originals answer may repeat texts that were replaced
                shown = without_message(answer) if answer.failure and not again.failure else again
            roots = {**_roots(request, work), str(work / "again"): "output", str(stage): "bundle"}
            _write_answer(shown, stage / bundle.ANSWER, privacy, roots)
            about = {
                "format": bundle.FORMAT,
                "format_version": bundle.FORMAT_VERSION,
                "tool": tool(),
                "made_with": _made_with(),
                "options": stored,
                "sides": {each.name: _about_side(each, privacy) for each in packed},
                "tensors": wanted.tensors,
                "anonymous": wanted.anonymous,
                "answer": {**_about_answer(shown, privacy, roots), "exit_code": answer.exit_code},
                "answer_of_bundle": {
                    **_about_answer(again, privacy, roots),
                    "differs_in": differ,
                },
                "replaced": dict(sorted((+privacy.counts).items())),
                "left_out": dict(sorted(left_out.items())),
            }
            (stage / bundle.MANIFEST).write_text(json.dumps(about, indent=1) + "\n", encoding="ascii")
            entries = _entries(stage)
        size = _write(output, stage, entries) if output is not None else 0
    counts = tensors.copied, tensors.skipped
    return Made(entries, size, answer, differ, pairs, *counts, dict(+privacy.counts), left_out)


def _sides(request: Request, tensors: str) -> tuple[Packed, Packed]:
    """Return what of both sides is packed. UsageError where that needs tensors, or cannot be packed."""
    made = []
    for name, path in zip(bundle.SIDES, (request.target, request.golden), strict=True):
        if kind_of(path).word == "flow":
            raise UsageError(
                f"{path}: is the root folder of an RL flow, which cannot be packed; give the folder of one stage "
                f"of each side, for example {path / 'actor_update'}"
            )
        found = side(path.absolute())
        if found.family != "dump" and tensors == "none":
            raise UsageError(
                f"{path}: is {found.text}, which contains only tensors; add --tensors, or --tensors --scramble"
            )
        made.append(packed_side(name, found, lambda place: _is_chosen(place, request)))
    if made[0].side.family != made[1].side.family:
        raise UsageError(
            f"the inputs are of different kinds: {request.target} is {made[0].side.text}, {request.golden} is "
            f"{made[1].side.text}; give two inputs of one kind"
        )
    return made[0], made[1]


def _is_chosen(place: Place, request: Request) -> bool:
    """Return whether a place is compared. Ranks that are merged are all needed."""
    if request.layouts is not None:
        return True
    chosen = ((place.step, request.steps), (place.rank, request.ranks))
    return all(number is None or numbers is None or number in numbers for number, numbers in chosen)


def _roots(request: Request, work: Path) -> dict[str, str]:
    """Return the paths that messages and tables name, and what they are called in the bundle."""
    sides = {
        str(form): name
        for name, path in zip(bundle.SIDES, (request.target, request.golden), strict=True)
        for form in (path, path.absolute(), path.resolve())
        if len(str(form)) > 1
    }
    return {str(work / "answer"): "output", **sides}


def _files_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the files that options name: mapping files, and the noise.json."""
    found = {}
    for name in (*bundle.MAPPINGS, "noise"):
        value = options.get(name)
        if isinstance(value, str) and value not in ("auto", "exact"):
            try:
                found[name] = read_input(user_path(value), MAX_CONFIGURATION_BYTES).decode("utf-8-sig", "replace")
            except OSError as err:
                raise UsageError(f"--{name} {value}: cannot be read ({err.strerror or err}); check the path") from err
    return found


def _stored(options: Mapping[str, Any], files: Mapping[str, str], stage: Path, privacy: Privacy) -> dict[str, Any]:
    """Write the files of options, and return the options as `bundle.json` has them."""
    stored: dict[str, Any] = {}
    for name, value in sorted(options.items()):
        if name in files:
            entry = f"{bundle.OPTIONS}/{name}.{'json' if name == 'noise' else 'yaml'}"
            (stage / bundle.OPTIONS).mkdir(parents=True, exist_ok=True)
            text = "".join(f"{privacy.text(line)}\n" for line in files[name].splitlines())
            (stage / entry).write_text(text, encoding="utf-8", errors="replace")
            stored[name] = {"file": entry}
        elif isinstance(value, list):
            stored[name] = [privacy.text(each) for each in value]
        else:
            stored[name] = value
    return stored


def _answer_of_bundle(
    wanted: Wanted, stored: Mapping[str, Any], packed: tuple[Packed, Packed], stage: Path, output: Path
) -> Answer:
    """Compare what was packed, with the options as they are stored."""
    options = {name: str(stage / value["file"]) if isinstance(value, dict) else value for name, value in stored.items()}
    target, golden = (stage / each.name / each.within for each in packed)
    try:
        return answer_of(wanted.request_of(target, golden, options), output, is_shown=False)
    except MsprobeError as err:  # something that an option names was replaced or left out
        return Answer(2, failure=terminal_line(str(err)))


def _made_with() -> dict[str, str]:
    """Return the versions of this process: Python, the platform, and the libraries that are installed."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _about_side(packed: Packed, privacy: Privacy) -> dict[str, object]:
    """Return what a side is, where it is in the bundle, and the versions with which its dumps were made."""
    runs: list[dict[str, object]] = []
    for file in packed.dumps if packed.is_of_dumps else ():
        head = read_head(file)
        run: dict[str, object] = {"framework": head.framework, "level": head.level, "task": head.task}
        versions = ("tool", "device", "python", "numpy")
        run |= {key: privacy.setting(key, head.run[key]) for key in versions if key in head.run}
        if isinstance(head.run.get("framework"), str):
            run["framework_version"] = head.run["framework"]
        if run not in runs:
            runs.append(run)
    return {
        "path": packed.within,
        "dumps": len(packed.dumps),
        "kind": packed.side.family,
        "format": format_of(packed),
        "made_with": runs,
    }


def _about_answer(answer: Answer, privacy: Privacy, roots: Mapping[str, str]) -> dict[str, object]:
    return {
        "exit_code": answer.exit_code,
        "lines": [privacy.output(line, roots) for line in answer.lines],
        "failure": privacy.output(answer.failure, roots),
        "log": [privacy.output(line, roots) for line in answer.log],
        "traceback": [privacy.output(line, roots) for line in answer.traceback.splitlines()],
    }


def _write_answer(answer: Answer, folder: Path, privacy: Privacy, roots: Mapping[str, str]) -> None:
    change = lru_cache(1 << 16)(lambda text: privacy.output(text, roots))  # most cells are like others
    for name, path in answer.tables.items():
        write_table(path, folder / name, change, privacy.name)
    if answer.lines or answer.failure:
        folder.mkdir(parents=True, exist_ok=True)
        lines = [privacy.output(line, roots) for line in (*answer.lines, answer.failure) if line]
        text = "\n".join((*lines, f"exit code {answer.exit_code}", ""))
        (folder / "output.txt").write_text(text, encoding="utf-8", errors="replace")


def _entries(stage: Path) -> dict[str, int]:
    """Return the entries, sorted by name, with their sizes; the manifest comes first, and empty folders are entries."""
    found = {}
    for path in stage.rglob("*"):
        name = path.relative_to(stage).as_posix()
        if path.is_file():
            found[name] = path.stat().st_size
        elif not any(path.iterdir()):
            found[f"{name}/"] = 0
    if len(found) > bundle.LIMITS.entries or sum(found.values()) > bundle.LIMITS.total:
        raise UsageError(
            f"{len(found)} files of {sum(found.values()) >> 20} MiB exceed the limit of a bundle; select with "
            "--steps and --ranks, or omit --tensors"
        )
    return dict(sorted(found.items(), key=lambda item: (item[0] != bundle.MANIFEST, item[0])))


def _write(output: Path, stage: Path, entries: Mapping[str, int]) -> int:
    """Write the zip, whole or not at all; return its size. Dates and modes are fixed: equal inputs, equal bytes."""
    with writing(output, ANOTHER, is_new=True):
        make_folder(output.parent)
        with creating(output) as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, size in entries.items():
                    info = zipfile.ZipInfo(name, _DATE)
                    info.create_system = 3  # Unix
                    info.external_attr = (0o040750 << 16 | 0x10) if name.endswith("/") else 0o100640 << 16
                    if name.endswith("/"):
                        archive.writestr(info, b"")
                        continue
                    info.compress_type = _method(stage / name, size)
                    info.file_size = size  # for zip64
                    with open_input(stage / name) as source, archive.open(info, "w") as entry:
                        while piece := source.read(_PIECE):
                            entry.write(piece)
            return file.tell()


def _method(path: Path, size: int) -> int:
    """Return how an entry is stored: as it is if it would not shrink, or shrink further than a reader accepts."""
    packer, packed = zlib.compressobj(wbits=-15), 0
    with open_input(path) as source:
        while piece := source.read(_PIECE):
            packed += len(packer.compress(piece))
    packed += len(packer.flush())
    return zipfile.ZIP_DEFLATED if size <= packed * (bundle.LIMITS.ratio // 2) and packed < size else zipfile.ZIP_STORED
