"""Check the environment before a training, or check and repair a dump.

  msprobe doctor DIR [--split]
  msprobe doctor [--config FILE] [--dump-path DIR] [--framework mindspore|pytorch] [--ranks N] [--steps N]

DIR is a dump_path, or the folder of a step or of a rank; every dump below it is checked. A dump whose process died has
a journal instead of its JSON files: they are rebuilt from the journal, which is then removed. Every tensor is checked,
and losses are reported. A dump whose process is still running is not changed. The command can be repeated. With
--split, tensors that share one file are written to separate npy files, and that file is removed.

Without DIR, the installation is checked; with --config, the settings that will not be collected here are listed with
the reason, and dump_path is checked for write access. No framework is imported.

Exit code 0: every dump is complete or rebuilt, or nothing prevents the training. 1: something is lost or wrong. 2: the
command was wrong.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import remove_stale_files
from msprobe.base.language import translated
from msprobe.base.log import join_names, terminal_line
from msprobe.base.phrase import phrase
from msprobe.base.verdicts import Gap, Verdicts
from msprobe.findings.catalogue import dumps as kinds
from msprobe.findings.catalogue.readiness import NEIGHBOUR
from msprobe.findings.data import as_data
from msprobe.findings.document import Document, printed
from msprobe.findings.finding import Answer, Finding, Place
from msprobe.findings.kind import Kind
from msprobe.options.declaration import option, positional
from msprobe.options.kinds import FLAG, PATH
from msprobe.readiness import installation, report
from msprobe.store import layout
from msprobe.store.assembly import write_files
from msprobe.store.async_writer import leave_out
from msprobe.store.conversion import examine_tensor, split
from msprobe.store.folders import folders_below, ranks_without_dump
from msprobe.store.journal import Journal, read_journal
from msprobe.store.lock import claim
from msprobe.store.npy import packed_at
from msprobe.store.reader import json_object, read_file, tensor_file, tensor_path
from msprobe.store.record import Dump, Record
from msprobe.store.tensor_pack.packed import MISSING_HASHER, find_packed, index_of, names_in


@dataclass(frozen=True)
class Loss:
    """A lost or wrong part of a dump: a kind in `msprobe.findings.catalogue.dumps`, and the details."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class FolderState:
    """The state of one folder.

    done : how the examination ended, `whole` or `rebuilt` for a dump that can be read.
    counts : calls, records and tensors of the dump.
    lost : losses.
    notes : facts that are not a loss.
    """

    done: str
    counts: str = ""
    lost: tuple[Loss, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = ": ".join(part for part in (self.done, self.counts) if part)
        text += f"; LOST: {'; '.join(map(str, self.lost))}" if self.lost else ""
        return text + (f"; note: {'; '.join(self.notes)}" if self.notes else "")


_DUMP_FILES = {*layout.DATA_FILES, layout.JOURNAL}


@dataclass(frozen=True, kw_only=True)
class Options(report.TrainingOptions):
    """The options of the command."""

    folder: Path | None = positional(
        PATH,
        "DIR",
        default=None,
        help="a dump_path, or the folder of a step or of a rank",
        zh="dump_path，或某个 step 或 rank 的文件夹",
    )
    split: bool = option(
        FLAG,
        "--split",
        default=False,
        help="write each tensor of a pack into a separate npy file",
        zh="把打包的每个张量写成单独的 npy 文件",
    )


def run(options: Options) -> int:
    """Check the environment or a dump, and print the result. UsageError if there is no dump."""
    root = options.folder
    if root is None:
        if options.split:
            raise UsageError(
                translated(
                    "--split applies to a dump; give the folder of the dump", "--split 针对 dump；请给出其文件夹"
                )
            )
        return report.run(options)
    if options.given:
        raise UsageError(
            translated(
                f"{options.given[0]} checks the environment before a training, but {root} is a dump; give only "
                "one of them",
                f"{options.given[0]} 针对尚未开始的训练，{root} 是 dump；请只给出一个",
            )
        )
    if not root.is_dir():
        raise UsageError(
            translated(
                f"{root}: is not a folder; give a dump_path, or the folder of a step or of a rank",
                f"{root}：不是文件夹；请给出 dump_path，或某个 step、rank 的文件夹",
            )
        )
    unreadable: dict[Path, str] = {}
    folders = [folder for folder, files in folders_below(root, unreadable) if _DUMP_FILES.intersection(files)]
    if not folders and not unreadable:
        raise UsageError(
            translated(
                f"{root}: neither it nor any folder below contains a dump; give the dump_path of a run",
                f"{root}：其中及其子文件夹中没有 dump；请给出一次运行的 dump_path",
            )
        )
    wrong = [each for each in installation.examine() if each.kind is NEIGHBOUR]
    verdicts = Verdicts(wrong=len(wrong))
    states: dict[Path, FolderState] = {}
    line = ""

    def show(text: str) -> None:
        nonlocal line
        line = text
        if not options.is_json:
            print(terminal_line(text))

    for each in wrong:
        show(f"installation: WRONG: {each.message}")
    empty = [folder for folder in ranks_without_dump(root, folders) if folder not in unreadable]
    for folder in sorted({*folders, *empty, *unreadable}):
        if folder in unreadable:
            verdicts += Verdicts(gaps={Gap.UNREADABLE_FOLDER: 1})
            loss = Loss(kinds.UNREADABLE_FOLDER, f"cannot be read ({unreadable[folder]})")
            state = FolderState("not checked", lost=(loss,))
        elif folder in empty:
            verdicts += Verdicts(wrong=1)
            state = FolderState(
                "empty", lost=(Loss(kinds.NO_DUMP, "it does not contain a dump, but other ranks of the step do"),)
            )
        else:
            state = examine_folder(folder)
            if options.split and state.done in ("whole", "rebuilt"):
                state = _split(folder, state)
            verdicts += Verdicts(wrong=1) if state.lost else Verdicts(fine=1)
        states[folder] = state
        show(f"{folder}: {state}")
    if verdicts.total > 1 and verdicts.exit_code:
        parts = [f"{n} {what}" for n, what in ((verdicts.wrong, "wrong"), (verdicts.unjudged, "not checked")) if n]
        show(f"{verdicts.fine} of {verdicts.total} are complete, {', '.join(parts)}")
    if options.is_json:
        answer = answer_of(states, [each.as_finding("installation") for each in wrong], line)
        details = {"folders": [{"folder": str(folder), **as_data(state)} for folder, state in states.items()]}
        printed(Document("doctor", answer, verdicts, verdicts.exit_code, details=details))
    return verdicts.exit_code


def answer_of(states: Mapping[Path, FolderState], installed: Sequence[Finding], line: str) -> Answer:
    """Return the answer about the folders of a dump and problems of the installation."""
    found = [*installed]
    for folder, one in states.items():
        place, fields = Place(str(folder)), {"done": one.done}
        found += [Finding(each.kind, place, phrase("{what}", what=each.text), fields=fields) for each in one.lost]
    is_wrong = any(each.kind is not kinds.UNREADABLE_FOLDER for each in found)
    state = "differs" if is_wrong else "unjudged" if found else "clean"
    notes = tuple(f"{folder}: {note}" for folder, one in states.items() for note in one.notes)
    return Answer(state, line, found[0] if is_wrong else None, tuple(found[is_wrong:]), notes=notes)


def examine_folder(folder: Path) -> FolderState:
    """Rebuild the dump in a folder if it has a journal whose process has ended, then check it."""
    try:
        held = claim(folder / layout.JOURNAL, create=False)
    except FileNotFoundError:
        return _check(folder, "whole")
    except OSError as err:
        return FolderState(
            "not checked", lost=(Loss(kinds.UNREADABLE_DUMP, f"{layout.JOURNAL} cannot be opened ({err.strerror})"),)
        )
    if held is None:
        text = "its process is still running; stop it, or run the command again after it has ended"
        return FolderState("not checked", lost=(Loss(kinds.STILL_WRITING, text),))
    try:
        return _rebuild(folder)
    finally:
        os.close(held)


def _split(folder: Path, finding: FolderState) -> FolderState:
    """Write the tensors in the pack of a folder to separate files, and add this to the state."""
    try:
        count = split(folder, read_file(_data_file(folder)))
    except (OSError, DumpError, MemoryError) as err:
        return replace(finding, lost=(*finding.lost, Loss(kinds.NOT_SPLIT, f"not split: {err}")))
    return replace(finding, counts=f"{finding.counts}, {count} of them split into npy files") if count else finding


def _rebuild(folder: Path) -> FolderState:
    journal_file = folder / layout.JOURNAL
    remove_stale_files(folder)
    try:
        journal = read_journal(journal_file, verify=True)
        if not journal.header:
            return _without_header(folder, journal)
        leave_out(journal, lambda file: _tensor_error(folder, file))
        write_files(folder, journal, rebuilt=True)
        found = _check(folder, "rebuilt", journal.cut, journal.extra_info)
        # The journal is removed only if the rebuilt dump can be read.
        if found.done == "rebuilt" and journal.malformed:
            os.replace(journal_file, folder / layout.DAMAGED_JOURNAL)  # kept for manual recovery
        elif found.done == "rebuilt":
            journal_file.unlink()
    # RecursionError: a damaged journal may be deeply nested. MemoryError: it may be larger than the memory.
    except (OSError, DumpError, RecursionError, MemoryError) as err:
        text = f"{err}; the journal is kept: fix the cause and run the command again"
        return FolderState("not rebuilt", lost=(Loss(kinds.NOT_REBUILT, text),))
    return found


def _tensor_error(folder: Path, file: str) -> str:
    """Return why a tensor in the journal cannot be read; empty if it can."""
    try:
        path = tensor_file(folder, file)
        if not path.exists() and file not in names_in(path.parent):
            return "its process died before the tensor was written"
        examine_tensor(path)
        if (packed := packed_at(path)) is not None:
            packed.verify()
    except DumpError as err:
        return str(err)
    return ""


def _without_header(folder: Path, journal: Journal) -> FolderState:
    """Handle a journal without a header: its process died before the first line, or it is damaged."""
    if journal.malformed or journal.parents:
        text = f"{layout.JOURNAL} does not begin with a header: it is damaged"
        return FolderState("not rebuilt", lost=(Loss(kinds.NOT_REBUILT, text),))
    (folder / layout.JOURNAL).unlink()
    if any(os.path.lexists(folder / name) for name in layout.DATA_FILES):
        return _check(folder, "whole")
    return FolderState("empty", notes=("its process died before the first call",))


def _check(folder: Path, done: str, cut: bool = False, extra_info: bool = True) -> FolderState:
    """Read the dump in a folder, its stacks and structure with `extra_info`, and the headers of all tensors."""
    # May be a pipe or a dangling link with the name of a dump, which the reader reports.
    file = _data_file(folder)
    try:
        dump = read_file(file, structure=True)
    except DumpError as err:
        return FolderState("unreadable", lost=(Loss(kinds.UNREADABLE_DUMP, str(err)),))
    is_table = file.name in layout.TABLES  # contains stacks and structure
    wants_companions = not is_table and extra_info and dump.extra_info
    lost_companions, companion_notes = _companions(folder, dump, wants_companions)
    records = [record for call in dump.calls for record in call.records]
    tensors = {record.file: record for record in records if record.file}
    bad = {name: reason for name, record in tensors.items() if (reason := _record_error(dump, record))}
    whole, unfinished = _files_without_record(folder / layout.TENSORS, set(tensors))
    pack = _examine_pack(folder / layout.TENSORS)
    odd = sum(statistics is not None and statistics.is_damaged for statistics in dump.columns.odd.values())
    return FolderState(
        done,
        f"{len(dump.calls)} calls, {len(records)} records, {len(tensors)} tensors",
        lost=(
            *(Loss(kinds.LOST_COMPANION, text) for text in lost_companions),
            *_losses(kinds.LOST_TENSORS, _count_with_examples("tensors are lost", {**pack.broken, **bad}.values())),
            *_losses(
                kinds.LOST_TENSORS, _count_phrase(pack.damaged_lines, f"lines of {layout.PACK_INDEX} are damaged")
            ),
            *_losses(
                kinds.UNCHECKED_DIGESTS, _count_phrase(pack.unchecked, f"digests cannot be checked: {MISSING_HASHER}")
            ),
            *_losses(kinds.NOT_COLLECTED, _count_with_examples("parts were not collected", dump.missing)),
            *_losses(kinds.ODD_STATISTICS, _count_phrase(odd, "records have statistics that are not numbers")),
        ),
        notes=(
            *([f"unfinished, {dump.unfinished}"] if dump.unfinished else []),
            *(["the last line of the journal is incomplete"] if cut else []),
            *companion_notes,
            *_count_with_examples("tensor files without a record", whole),
            *_count_with_examples("unfinished tensor files", unfinished),
        ),
    )


def _data_file(folder: Path) -> Path:
    return next((folder / name for name in layout.DATA_FILES if os.path.lexists(folder / name)), folder / layout.DEBUG)


def _companions(folder: Path, dump: Dump, extra_info: bool) -> tuple[list[str], list[str]]:
    """Return losses in the call stacks and enclosing cells, and notes."""
    absent: list[str] = []
    broken: list[str] = []
    for name in (layout.STACK, layout.CONSTRUCT):
        if not os.path.lexists(folder / name):
            absent.append(name)
            continue
        try:
            json_object(folder / name)
        except DumpError as err:
            broken.append(str(err))
    if dump.level == "debug" or not extra_info or not absent:
        return broken, []
    # Other tools do not record whether both were disabled; if only one is missing, it is lost.
    if len(absent) == 2 and not dump.format_version:
        return broken, [f"without {' and '.join(absent)}"]
    return [*broken, *(f"{name} is missing; copy it again" for name in absent)], []


def _record_error(dump: Dump, record: Record) -> str:
    try:
        shape = examine_tensor(tensor_path(dump, record))
    except DumpError as err:
        return str(err)
    if None not in (record.shape, shape) and shape != record.shape:
        return f"{record.file}: has shape {shape}, but its record has {record.shape}"
    return ""


@dataclass(frozen=True)
class _Pack:
    """The state of a pack.

    broken : reasons why tensors are broken, by name.
    damaged_lines : number of damaged lines of the index.
    unchecked : number of digests that cannot be checked.
    """

    broken: dict[str, str] = field(default_factory=dict)
    damaged_lines: int = 0
    unchecked: int = 0


def _examine_pack(folder: Path) -> _Pack:
    """Check the tensors in the pack of a folder with their digests; equal contents are checked once."""
    broken: dict[str, str] = {}
    verified: dict[tuple[str, str], bool] = {}
    unchecked = 0
    try:
        index = index_of(folder)
    except DumpError as err:
        return _Pack({layout.PACK_INDEX: str(err)})
    for name, fields in index.tensors.items():
        if os.path.lexists(folder / name):
            continue  # the separate file is used
        try:
            packed = find_packed(folder / name, is_strict=True)
            assert packed is not None  # its index has the name
            key = fields.digest, fields.spans
            if key not in verified:
                verified[key] = packed.verify()
            unchecked += not verified[key]
        except DumpError as err:
            broken[name] = str(err)
    return _Pack(broken, index.damaged, unchecked)


def _files_without_record(folder: Path, named: set[str]) -> tuple[list[str], list[str]]:
    """Return the tensor files without a record: complete ones, and unfinished ones."""
    whole: list[str] = []
    unfinished: list[str] = []
    found: set[str] = set()
    with suppress(OSError):  # no folder, or not readable: reported for each tensor with a record
        found.update(os.listdir(folder))
    found -= {layout.PACK, layout.PACK_INDEX}
    found.update(names_in(folder))
    for name in sorted(found - named):
        try:
            examine_tensor(folder / name)
            whole.append(name)
        except DumpError:
            unfinished.append(name)
    return whole, unfinished


def _losses(kind: Kind, texts: Iterable[str]) -> list[Loss]:
    return [Loss(kind, text) for text in texts]


def _count_phrase(number: int, what: str) -> list[str]:
    """Return a list of one phrase with a number; empty for 0."""
    return [f"{number} {what}"] if number else []


def _count_with_examples(what: str, items: Collection[str]) -> list[str]:
    """Return a list of one phrase with the number of items and some examples; empty without items."""
    if not items:
        return []
    return [f"{len(items)} {what} ({join_names(items)})"]
