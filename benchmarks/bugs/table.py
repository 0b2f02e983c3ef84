"""From scores to tables in Markdown."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from baseline import LIMITS
from cases import REGIMES, TASKS
from fault import SETS

Score = dict[str, Any]


def markdown(scores: list[Score]) -> str:
    """Two tables, a row for each regime and task: our answers, for each set of faults, and those of the others.

    Clean pairs belong to no set, and are counted in each row.
    """
    heads = ["regime", "task", "set", "faults", "named first", "kind right too", "in the first three", "undecided"]
    heads += ["exit code 0", "small: named first", "below the noise: named first", "clean pairs", "clean alarmed"]
    heads += ["clean undecided", "harmless alarmed"]
    lines = [_line(heads), "|" + "---|" * len(heads)]
    for (regime, task, chosen), share in _by_set(scores).items():
        faulty, clean = _faulty(share), _clean(share)
        small = [one for one in faulty if one["small"]]
        below = [one for one in faulty if one["effect"] is not None and one["effect"] < one["noise"]]
        harmless = [one for one in share if one["harmless"]]
        cells = [regime, task, chosen, str(len(faulty))]
        cells += [_count(faulty, lambda one, key=key: one["ours"][key]) for key in ("first", "kind", "three")]
        cells += [_count(faulty, _is_undecided), _count(faulty, lambda one: not one["ours"]["alarm"])]
        cells += [f"{_count(part, lambda one: one['ours']['first'])} of {len(part)}" for part in (small, below)]
        cells += [str(len(clean)), _count(clean, lambda one: one["ours"]["alarm"]), _count(clean, _is_undecided)]
        cells.append(f"{_count(harmless, lambda one: one['ours']['alarm'])} of {len(harmless)}")
        lines.append(_line(cells))
    return "\n".join([*lines, "", *_others(scores)])


def _others(scores: list[Score]) -> list[str]:
    """Faults named first, and clean pairs alarmed, by plain tolerances and by the reference tool."""
    heads = ["regime", "task", "faults", "clean pairs", "ours: first / clean alarmed"]
    heads += [f"plain {limit:g}" for limit in LIMITS]
    has_other = any("other" in one for one in scores)
    heads += ["mindstudio-probe", "ours on the same cases"] if has_other else []
    lines = [_line(heads), "|" + "---|" * len(heads)]
    for (regime, task), share in _groups(scores).items():
        faulty, clean = _faulty(share), _clean(share)
        cells = [regime, task, str(len(faulty)), str(len(clean)), _both(faulty, clean, lambda one: one["ours"])]
        for limit in LIMITS:
            cells.append(_both(faulty, clean, lambda one, limit=limit: one.get("baseline", {}).get(str(limit), {})))
        if has_other:
            others = [[one for one in part if "other" in one] for part in (faulty, clean)]
            of = f"of {len(others[0])} / {len(others[1])}"
            cells += [f"{_both(*others, lambda one, key=key: one[key])} {of}" for key in ("other", "ours")]
        lines.append(_line(cells))
    return lines


def _is_undecided(one: Score) -> bool:
    return bool(one["ours"].get("undecided"))  # scores of earlier versions do not have it


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def page(scores: list[Score]) -> str:
    """RESULTS.md: the table, the classes of faults, and every fault that was not named, with the answer."""
    parts = ["# Results", "", "Written by `run.py`. What is measured, and how, stands in [README.md](README.md).", ""]
    parts += [markdown(scores), "", "## By class of fault, named first", "", _by_class(scores), ""]
    parts += ["## Faults that are not named first", ""]
    for (regime, task, chosen), share in _by_set(scores).items():
        missed = [one for one in _faulty(share) if not one["ours"]["first"]]
        parts += [f"### {regime}, {task}, {chosen}: {len(missed)}", "", *map(_missed, missed), ""]
    parts += ["## Clean pairs that are alarmed", ""]
    for (regime, task), share in _groups(scores).items():
        alarmed = [one for one in share if one["clean"] and one["ours"]["alarm"]]  # with the harmless ones
        if alarmed:
            parts += [f"### {regime}, {task}: {len(alarmed)}", "", *_alarmed(alarmed), ""]
    return "\n".join(parts).rstrip() + "\n"


def _groups(scores: Iterable[Score]) -> dict[tuple[str, str], list[Score]]:
    found = defaultdict(list)
    for one in scores:
        found[one["regime"], one["task"]].append(one)
    order = [(regime, task) for regime in REGIMES for task in TASKS]
    return {key: found[key] for key in order if key in found}


def _by_set(scores: Iterable[Score]) -> dict[tuple[str, str, str], list[Score]]:
    return {
        (regime, task, chosen): [one for one in share if one["set"] in (chosen, "")]
        for (regime, task), share in _groups(scores).items()
        for chosen in SETS
        if any(one["set"] == chosen for one in share)
    }


def _faulty(share: Iterable[Score]) -> list[Score]:
    """The faults that the records can show."""
    return [one for one in share if not one["clean"] and not one["unseen"]]


def _clean(share: Iterable[Score]) -> list[Score]:
    return [one for one in share if one["clean"] and not one["harmless"]]


def _count(share: list[Score], holds: Callable[[Score], bool]) -> str:
    return str(sum(bool(holds(one)) for one in share))


def _both(faulty: list[Score], clean: list[Score], of: Callable[[Score], dict[str, bool]]) -> str:
    if not any(of(one) for one in (*faulty, *clean)):
        return "-"
    first, alarmed = (
        sum(of(one).get(key, False) for one in share) for key, share in (("first", faulty), ("alarm", clean))
    )
    return f"{first} / {alarmed}"


def _by_class(scores: list[Score]) -> str:
    groups = _groups(scores)
    classes = sorted({one["class"] for one in _faulty(scores)})
    lines = ["| class | " + " | ".join(f"{regime}, {task}" for regime, task in groups) + " |"]
    lines.append("|" + "---|" * (len(groups) + 1))
    for each in classes:
        cells = [each]
        for share in groups.values():
            of_class = [one for one in _faulty(share) if one["class"] == each]
            cells.append(f"{_count(of_class, lambda one: one['ours']['first'])} of {len(of_class)}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _missed(one: Score) -> str:
    variant = f" ({one['variant']})" if one["variant"] else ""
    named = f"{one['found'][0]['name']}: {_short(one['found'][0]['kind'])}" if one["found"] else "nothing"
    rank = "; right in the first three" if one["ours"]["three"] else ""
    silent = "" if one["ours"]["alarm"] else "; exit code 0"
    if one["effect"] is not None:
        silent += f"; the fault is {one['effect']:.1g} of the result there, a clean pair differs by {one['noise']:.1g}"
    return f"- `{one['case']}`{variant}: wanted `{one['names'][0]}`, named {named}{rank}{silent}"


def _alarmed(alarmed: list[Score]) -> list[str]:
    named = defaultdict(list)
    for one in alarmed:
        result = f"{one['found'][0]['name']}: {_short(one['found'][0]['kind'])}" if one["found"] else one["last"]
        named[result].append(one["case"])
    return [f"- {result}: {len(names)}, as `{names[0]}`" for result, names in sorted(named.items())]


def _short(kind: str) -> str:
    return kind.partition(" between ")[0] + " between" if " between " in kind else kind
