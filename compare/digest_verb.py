"""Write digests of the dumps of a run, so that a comparison of many ranks can skip equal ranks.

  msprobe digest DIR

DIR is a dump_path, the folder of a step or of a rank, a dump.json or a dump.parquet. A digest.json is written next to
each of these files below it: digests of the dump, and the result of comparing it with an equal dump. `msprobe compare
--first-only` reads these files first. Run the command on both runs, on the machines that have the dumps; digests that
are up to date are kept. No other file is changed. Exit code 0: every dump has its digests. 1: a dump could not be read,
or a file could not be written. 2: the command was wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.language import translated
from msprobe.base.log import terminal_line
from msprobe.base.verdicts import Gap, Verdicts
from msprobe.options.declaration import positional
from msprobe.options.groups import Cluster, JsonAnswer
from msprobe.options.kinds import PATH
from msprobe.store import layout
from msprobe.store.folders import folders_below, ranks_without_dump

_DUMPS = (layout.DUMP, layout.DUMP_TABLE)


@dataclass(frozen=True, kw_only=True)
class Options(Cluster, JsonAnswer):
    """The options of the command."""

    path: Path = positional(
        PATH,
        "DIR",
        help="a dump_path, the folder of a step or of a rank, or a dump.json",
        zh="dump_path、某个 step 或 rank 的文件夹，或 dump.json",
    )


def run(options: Options) -> int:
    """Digest the dumps of the arguments, and count them; raise a UsageError if there is none."""
    root = options.path.absolute()
    if root.is_file() and root.name not in _DUMPS:
        raise UsageError(
            translated(
                f"{root}: is not a {layout.DUMP}; give a {layout.DUMP}, or a folder that contains some",
                f"{root}：不是 {layout.DUMP}；请给出该文件，或包含它的文件夹",
            )
        )
    unreadable: dict[Path, str] = {}
    files = [root] if root.is_file() else sorted(_dumps(root, unreadable))
    if not files and not (unreadable and root.is_dir()):
        raise UsageError(
            translated(
                f"{root}: neither it nor any folder below contains a {layout.DUMP}; give the dump_path of a run",
                f"{root}：其中及其子文件夹中没有 {layout.DUMP}；请给出一次运行的 dump_path",
            )
        )
    from .workers import run as workers  # here: the help of the command does not need numpy

    done = workers.run(digest_one, files, workers=options.workers or 0, scheduler=options.scheduler, title="digesting")
    results = dict(done)
    made = kept = 0
    failed: dict[str, str] = {}
    empty = [] if root.is_file() else ranks_without_dump(root, {file.parent for file in files})
    for folder in (folder for folder in empty if folder not in unreadable):
        failed[str(folder)] = f"{folder}: contains no dump"
    for folder, why in unreadable.items():
        failed[str(folder)] = f"{folder}: cannot be read ({why})"
    for at, file in enumerate(files):
        result = results[at]
        if isinstance(result, workers.Lost):
            result = Digestion(failed=f"{file}: {result.reason}")
        made += result.is_new
        kept += not (result.is_new or result.failed)
        if result.failed:
            failed[str(file)] = result.failed
    line = f"{made + kept + len(failed)} dumps: {made} digested, {kept} up to date, {len(failed)} failed"
    verdicts = Verdicts(fine=made + kept, gaps={Gap.UNREADABLE_DUMP: len(failed)})
    if options.is_json:
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        answer = Answer("unjudged" if failed else "shown", line)
        details = {"digested": made, "up_to_date": kept, "failed": failed}
        printed(Document("digest", answer, verdicts, verdicts.exit_code, details=details))
        return verdicts.exit_code
    for why in failed.values():
        print(terminal_line(f"not digested: {why}"))
    print(line)
    return verdicts.exit_code


@dataclass(frozen=True, slots=True)
class Digestion:
    """Result of digesting one dump; `failed` is a sentence."""

    is_new: bool = False
    failed: str = ""


def digest_one(file: Path) -> Digestion:
    """Digest one dump, if that is not done yet."""
    from .jobs.digested import is_up_to_date, write_digests

    try:
        if is_up_to_date(file):
            return Digestion()
        write_digests(file)
    except DumpError as err:
        return Digestion(failed=" ".join(str(err).split()))
    except OSError as err:
        return Digestion(failed=f"{file.with_name(layout.DIGEST)}: cannot be written ({err.strerror or err})")
    return Digestion(is_new=True)


def _dumps(root: Path, unreadable: dict[Path, str]) -> Iterator[Path]:
    """Yield every dump.json, or table of a columnar dump, below a folder."""
    for folder, files in folders_below(root, unreadable):
        yield from (folder / name for name in _DUMPS if name in files)
