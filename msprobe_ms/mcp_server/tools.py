"""The tools: functions with typed parameters, whose docstrings agents read. Errors of users are MsprobeError."""

import asyncio
from collections.abc import Awaitable, Callable
from tempfile import TemporaryDirectory
from typing import Any, Literal

from msprobe.base.errors import UsageError
from msprobe.findings.data import as_data
from msprobe.findings.explain import kind_named, page_of
from msprobe.store.reader import with_whole_characters

from .calls import look
from .commands import document_of, path_of
from .runs import listing_of

_reading = asyncio.Lock()
"""One dump is read at a time: each may need much memory."""


async def compare(
    target: str,
    golden: str = "",
    output: str = "",
    steps: list[int] | None = None,
    ranks: list[int] | None = None,
    noise: str = "auto",
    fuzzy: bool = False,
    html: bool = False,
) -> dict[str, Any]:
    """Compare two dumps and return the first wrong call, as a JSON document.

    A dump is a dump.json, the folder of a rank, of a step or of a whole run, a kernel dump, or a folder of npy files.
    Calls of two frameworks (a MindSpore port and its PyTorch original) are matched automatically. Differences that are
    only rounding are recognized and not reported.

    Members of the document that matter most:
    - state: "differs" (something is wrong), "clean", "unjudged" (something could not be judged).
    - answer: one sentence for people.
    - findings: the first one is the cause if first_is_cause is true; the others do not follow from it. Each has `code`
      (pass it to explain), `message`, `certainty` ("certain", "likely", "open"), `place` (call name, cell, step, rank,
      file, line and code of the user's source), `fields` (the evidence as data), `later_calls` and `reaches_loss`.
    - suggestions: what to do next, with a command or a configuration to copy.
    - notes: what limits the answer.

    Args:
        target: path of the dump under suspicion, or of a bundle (.zip), which has both sides
        golden: path of the trusted dump; leave it out if target is a bundle
        output: folder to keep the tables in; without it nothing is written
        steps: only these steps; default: all that both sides have
        ranks: only these ranks; default: all that both sides have
        noise: "auto", "exact" (every difference counts), or the path of a noise.json
        fuzzy: also pair remaining calls in order, by name or operation
        html: also write a page that shows the comparison; only with output
    """
    words = [*_sides(target, golden), *_selection(steps, ranks)]
    if noise not in ("", "auto"):  # not given: a bundle may hold another one
        words.append(f"--noise={noise if noise == 'exact' else path_of(noise, 'noise')}")
    words += ["--fuzzy"] if fuzzy else []
    if html and not output:
        raise UsageError("html: the page is written to a folder; give output too")
    if output:
        words += ["--html"] if html else []
        return await document_of("compare", [*words, "-o", str(path_of(output, "output"))])
    with TemporaryDirectory(prefix="msprobe-mcp-", ignore_cleanup_errors=True) as temporary:
        document = await document_of("compare", [*words, "-o", temporary, "--format", "csv"])
    return {**document, "files": {}}


async def diagnose(
    target: str,
    golden: str = "",
    output: str = "",
    steps: list[int] | None = None,
    ranks: list[int] | None = None,
) -> dict[str, Any]:
    """Find where two runs diverge, from everything that they recorded, as a JSON document.

    Each side is a folder with dumps, outputs of the monitor, checkpoints and packed configurations in any mixture, or
    one of these. Use it instead of compare if there are several collections, or if you do not know what a folder holds.
    The document has the same members as that of compare; its suggestions include the configuration of the next
    collection if the records are not sufficient.

    Args:
        target: path of the run under suspicion, or of a bundle (.zip), which has both sides
        golden: path of the trusted run; leave it out if target is a bundle
        output: folder to keep the tables of the comparisons in; without it nothing is written
        steps: only these steps; default: all that both sides have
        ranks: only these ranks; default: all that both sides have
    """
    words = [*_sides(target, golden), *_selection(steps, ranks)]
    return await document_of("diagnose", [*words, *(["-o", str(path_of(output, "output"))] if output else [])])


async def explain(code: str, language: Literal["en", "zh"] = "en") -> dict[str, Any]:
    """Explain a kind of finding: what it means, how it is decided, typical causes, and how to confirm it.

    Args:
        code: the code of a finding, as in MSP101, or its name, as in "computes differently"
        language: "en" or "zh"
    """
    kind = kind_named(code)
    texts = {name: getattr(kind, name).in_(language) for name in ("title", "means", "decided", "look", "confirm")}
    return {
        "code": kind.code,
        "name": kind.name,
        "severity": kind.severity.value,
        **texts,
        "causes": [cause.in_(language) for cause in kind.causes],
        "docs": page_of(kind, language),
    }


async def look_at_call(
    dump: str, name: str, step: int | None = None, rank: int | None = None, around: int = 3
) -> dict[str, Any]:
    """Look at one call of a dump: its records with statistics, its stack, and what is around it.

    Call it with the place of a finding, once for the target and once for the golden, to see the numbers that differ.

    The result has: `records` (inputs, parameters and outputs with dtype, shape, max, min, mean, norm, numbers of NaN
    and infinities, or the value of an argument that is not a tensor; of each input the `producers`, records of earlier
    calls that you can look at next), `file`, `line` and `code` of the user's source, `stack` (innermost frame first),
    `cells` (the modules around the call, innermost first), `counterpart` (the backward call of a forward call, and the
    reverse), `before` and `after` (neighbors in the order of execution). NaN and infinities are the texts "nan", "inf"
    and "-inf".

    Args:
        dump: path of a dump.json, or of the folder of a rank, of a step or of a run
        name: name of the call, as in Functional.linear.0.forward; of one of its records; or a part of the name, which
            is answered with the names that contain it
        step: the step, if dump is the folder of a run with several
        rank: the rank, if there are several
        around: number of calls before and after it that are listed
    """
    path = path_of(dump, "dump")
    return await _read(lambda: look(path, name, step, rank, max(0, around)))


async def list_runs(folder: str) -> dict[str, Any]:
    """List the dumps below a folder: what each is, its steps, ranks, framework, task, level and number of calls.

    `runs` are dumps that compare and look_at_call read; a run with several steps or ranks is one entry, whose `calls`
    is the number of calls in its first dump. `others` are outputs of the monitor, checkpoints and packed
    configurations, which diagnose reads. `unused` is not recognized. Folders are searched three levels deep.

    Args:
        folder: path of the folder, or of a single dump
    """
    path = path_of(folder, "folder")
    return await _read(lambda: listing_of(path))


TOOLS: tuple[Callable[..., Awaitable[dict[str, Any]]], ...] = (compare, diagnose, explain, look_at_call, list_runs)

WRITERS = (compare, diagnose)
"""Tools that write, if an output folder is given."""


def _sides(target: str, golden: str) -> list[str]:
    return [str(path_of(target, "target")), *([str(path_of(golden, "golden"))] if golden else [])]


def _selection(steps: list[int] | None, ranks: list[int] | None) -> list[str]:
    chosen = (("--steps", steps), ("--ranks", ranks))
    return [f"{flag}={','.join(map(str, numbers))}" for flag, numbers in chosen if numbers]


async def _read(work: Callable[[], object]) -> dict[str, Any]:
    """Read dumps in a thread, so that the server answers meanwhile, and return the result as JSON types."""
    async with _reading:
        made: dict[str, Any] = with_whole_characters(as_data(await asyncio.to_thread(work)))
    return made
