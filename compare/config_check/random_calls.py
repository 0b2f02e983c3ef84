"""Compare the numbers and places of calls of random functions."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from msprobe.base.redaction import source
from msprobe.store.config_pack import ConfigPack, random

from .findings import CallSite, Kind, Level, RandomRow

OF_MSPROBE = frozenset(
    (
        *(f"random.{name}" for name in ("random", "randint", "uniform", "choice")),
        *(f"np.random.{name}" for name in ("rand", "randint", "choice", "normal")),
        *(f"mindspore.ops.{name}" for name in ("rand", "randint", "randn")),
        *("mindspore.set_seed", "mindspore.common.set_seed"),
        *(f"torch.{name}" for name in ("rand", "randint", "randn", "rand_like", "randint_like", "randn_like")),
        "torch.manual_seed",
        *(f"torch.Tensor.{name}" for name in ("exponential_", "geometric_", "log_normal_", "cauchy_")),
    )
)
"""The functions that msprobe counts: a pack without a list of functions is from msprobe."""

ENOUGH = 0.8
"""Two frames are the same place if the mean of three numbers is at least this: same file, same function, similarity of
the code. msprobe's bound."""

_MAX_PLACES = 60  # places of one function that are compared with each other: milliseconds per pair, in the worst case
_FRAME = re.compile(r"File (?P<file>.*?), line \d+, in (?P<function>[^,]*), ?(?P<code>.*)", re.DOTALL)
_MAX_LINE = 200  # characters of a line of code that are compared

Sites = Sequence[CallSite]


def compare(bench: ConfigPack, cmp: ConfigPack, frameworks: tuple[str, str]) -> Iterator[RandomRow]:
    """Yield one row for each place of calls, rank by rank; across frameworks functions have their names without
    these."""
    name = _canonical if frameworks[0] != frameworks[1] else str
    counted = [frozenset(map(name, _counted(pack))) for pack in (bench, cmp)]
    for rank in sorted({*bench.random_ranks} & {*cmp.random_ranks}):
        ours, theirs = _sites(bench, rank, name), _sites(cmp, rank, name)
        for op in (*ours, *(op for op in theirs if op not in ours)):
            is_known = all(op in each for each in counted)
            for row in _rows(op, rank, ours.get(op, ()), theirs.get(op, ())):
                if not is_known:
                    yield replace(row, kind=Kind.NOT_COUNTED, level=Level.INFO)
                elif frameworks[0] != frameworks[1] and not (row.bench and row.cmp):
                    # the code of different frameworks draws at different places
                    yield replace(row, level=Level.WARNING)
                else:
                    yield row


def _counted(pack: ConfigPack) -> frozenset[str]:
    held = pack.about.get("random_functions")
    return frozenset(map(str, held)) if isinstance(held, list) else OF_MSPROBE


def _canonical(op: str) -> str:
    """Return a function's name without its framework's: `rand` of `mindspore.ops.rand`, `mint.rand` and
    `torch.rand`."""
    head, _, rest = op.partition(".")
    if head not in ("mindspore", "torch"):
        return op
    last = rest.rpartition(".")[2]
    return {"set_seed": "manual_seed"}.get(last, f"Tensor.{last}" if "Tensor." in rest else last)


def _sites(pack: ConfigPack, rank: int, name: Callable[[str], str]) -> dict[str, list[CallSite]]:
    """Return the places by function."""
    found: dict[str, list[CallSite]] = {}
    for op, sites in pack.object(random(rank)).items():
        for site in sites if isinstance(sites, list) else ():
            if (made := _site(site)) is not None:
                found.setdefault(name(op), []).append(made)
    return found


def _site(held: Any) -> CallSite | None:
    if not isinstance(held, Mapping):
        return None
    count, stack = held.get("count"), held.get("stack")
    if not isinstance(count, int) or not isinstance(stack, list):
        return None
    return CallSite(count, tuple(source(str(line)) for line in stack))


def _rows(op: str, rank: int, ours: Sites, theirs: Sites) -> Iterator[RandomRow]:
    free = list(range(len(theirs)))
    partners: dict[int, int] = {}
    exact: dict[tuple[str, ...], list[int]] = {}
    for at in reversed(free):
        exact.setdefault(theirs[at].stack, []).append(at)
    for at, site in enumerate(ours):
        if exact.get(site.stack):
            partners[at] = exact[site.stack].pop()
    left = set(free) - set(partners.values())
    rest = [at for at in range(len(ours)) if at not in partners]
    for _, at, other in _scored(ours, theirs, rest, sorted(left)):
        if at not in partners and other in left:
            partners[at] = other
            left.discard(other)
    for at, site in enumerate(ours):
        yield _row(op, rank, site, theirs[partners[at]] if at in partners else None)
    yield from (_row(op, rank, None, theirs[at]) for at in sorted(left))


def _row(op: str, rank: int, bench: CallSite | None, cmp: CallSite | None) -> RandomRow:
    if bench is None or cmp is None:
        return RandomRow(Kind.CMP_ONLY if bench is None else Kind.BENCH_ONLY, Level.ERROR, op, rank, bench, cmp)
    is_same = bench.count == cmp.count
    level, kind = (Level.PASS, Kind.EQUAL) if is_same else (Level.ERROR, Kind.DIFFERS)
    return RandomRow(kind, level, op, rank, bench, cmp)


def _scored(ours: Sites, theirs: Sites, left: list[int], right: list[int]) -> list[tuple[float, int, int]]:
    """Return the pairs of places that are the same, most similar first."""
    found = []
    for at in left[:_MAX_PLACES]:
        for other in right[:_MAX_PLACES]:
            score = _score(ours[at].stack, theirs[other].stack)
            if score >= ENOUGH:
                found.append((score, at, other))
    return sorted(found, key=lambda pair: (-pair[0], pair[1], pair[2]))


def _score(ours: tuple[str, ...], theirs: tuple[str, ...]) -> float:
    """Return the similarity of two stacks, by their least similar frames; 0 for stacks of different lengths."""
    if len(ours) != len(theirs):
        return 0.0
    least = 1.0
    for a, b in zip(reversed(ours), reversed(theirs), strict=True):
        least = min(least, _frame_score(a, b))
        if least < ENOUGH:
            return 0.0
    return least


@lru_cache(1 << 14)
def _frame_score(ours: str, theirs: str) -> float:
    if ours == theirs:
        return 1.0
    a, b = _FRAME.fullmatch(ours[:10_000]), _FRAME.fullmatch(theirs[:10_000])
    if a is None or b is None:
        return 0.0
    same_file = a["file"].replace("\\", "/").rpartition("/")[2] == b["file"].replace("\\", "/").rpartition("/")[2]
    same_function = a["function"] == b["function"]
    if not (same_file and same_function):  # each of the three numbers is at most one
        return 0.0
    code = SequenceMatcher(None, a["code"][:_MAX_LINE], b["code"][:_MAX_LINE], autojunk=False).ratio()
    return (2 + code) / 3
