"""Suggest mapping files that relate the calls of two frameworks.

  msprobe mapping suggest TARGET GOLDEN -o mapping.yaml

TARGET and GOLDEN are dumps of one network in two frameworks: a dump.json, the folder of a rank, or of a step with one
rank. The files are mapping.api.yaml, mapping.cell.yaml, mapping.layer.yaml and mapping.data.yaml, for the options -am,
-cm, -lm and -dm of `msprobe compare`; files without a rule are not written. Ambiguous pairs are written as comments.
Exit code: 0 a pair was found, 1 no pair was found, 2 the command was wrong.
"""

from dataclasses import dataclass
from pathlib import Path

from msprobe.base.files import creating, make_folder, refuse_existing, writing
from msprobe.base.log import terminal_line
from msprobe.base.verdicts import Verdicts
from msprobe.options.declaration import OUTPUT, option, positional
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import PATH, one_of

_SHOWN = 10
_SURE = 0.8
_ANOTHER = "choose another path with -o"


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    action: str = positional(one_of("suggest"), "suggest", help="the only action", zh="唯一的操作")
    target: Path = positional(PATH, "TARGET", help="the dump under suspicion", zh="待定位的 dump")
    golden: Path = positional(PATH, "GOLDEN", help="the trusted dump", zh="标杆 dump")
    output: Path = option(
        PATH,
        "-o",
        "--output",
        metavar="FILE",
        default=Path("mapping.yaml"),
        role=OUTPUT,
        help="common prefix of the file names",
        zh="各文件名的公共前缀",
    )


def run(options: Options) -> int:
    """Find counterparts, write the files, and print what has to be checked."""
    output = options.output
    for path in (_neighbor(output, kind) for kind in ("api", "cell", "layer", "data")):
        refuse_existing(path, _ANOTHER)  # the user may have edited it
    from msprobe.compare.counterparts.search import find_counterparts
    from msprobe.findings.document import Document, printed
    from msprobe.findings.finding import Answer, Suggestion
    from msprobe.store.reader import read  # here: the help of the command does not need numpy

    from .mapping_files import KINDS, OPTIONS, suggest

    target, golden = read(options.target), read(options.golden)
    found = find_counterparts(target, golden)
    mine, theirs = target.columns.names, golden.columns.names
    unsure, goldens = sum(pair.confidence < _SURE for pair in found.calls), {pair.golden for pair in found.calls}
    counts = (
        f"{len(found.calls)} of {len(mine)} calls are paired, with {len(goldens)} of {len(theirs)}; {unsure} of the "
        f"pairs have a confidence below {_SURE}, {len(found.ambiguous)} calls are ambiguous"
    )
    details = {
        "pairs": len(found.calls),
        "target_calls": len(mine),
        "golden_calls": len(theirs),
        "unsure": unsure,
        "open": {mine[at]: [theirs[c] for c in candidates] for at, candidates in found.ambiguous.items()},
    }

    def document(state: str, line: str, exit_code: int, suggestions: tuple[Suggestion, ...] = ()) -> Document:
        answer = Answer(state, line, advice=suggestions, notes=(counts,))
        return Document("mapping", answer, Verdicts(len(found.calls)), exit_code, files=files, details=details)

    files: dict[str, Path] = {}
    if not found.calls:
        line = "No pair was found: check that both dumps are from the same network, step and level."
        if options.is_json:
            printed(document("unjudged", line, Verdicts().exit_code))
        else:
            print(f"{counts}\n{line}")
        return Verdicts().exit_code
    suggestion = suggest(target, golden, found)
    flags = []
    lines = [counts]
    for kind in KINDS:
        if suggestion.texts[kind]:
            path = _neighbor(output, kind)
            with writing(path, _ANOTHER, is_new=True):
                make_folder(path.parent)
                with creating(path) as file:
                    file.write(suggestion.texts[kind].encode("utf-8", errors="backslashreplace"))
            lines.append(f"{path}: {suggestion.rules[kind]} rules")
            files[kind] = path
            flags.append(f"{OPTIONS[kind]} {path}")
    for at, candidates in list(found.ambiguous.items())[:_SHOWN]:
        lines.append(f"open: {mine[at]} could be {' or '.join(theirs[c] for c in candidates)}")
    if len(found.ambiguous) > _SHOWN:
        lines.append(f"open: and {len(found.ambiguous) - _SHOWN} more, in the files")
    command = f"msprobe compare -tp {options.target} -gp {options.golden} {flags[-1]}"
    lines.append(f"Check and edit the files, then compare: {command}")
    if options.is_json:
        review = Suggestion("check and edit the files, then compare", command)
        printed(document("shown", lines[-1], 0, (review,)))
        return 0
    for line in lines:
        print(terminal_line(line))
    return 0


def _neighbor(output: Path, kind: str) -> Path:
    """Return `mapping.cell.yaml` for `mapping.yaml`."""
    suffix = output.suffix if output.suffix in (".yaml", ".yml") else ""
    return output.with_name(f"{output.name.removesuffix(suffix)}.{kind}{suffix or '.yaml'}")
