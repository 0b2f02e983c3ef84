"""Scores of the answers, and of simpler methods on the same runs."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np

RTOL = 1e-3
HERE = Path(__file__).parent


STATES = {0: "green", 1: "red", 3: "did not train"}


def gate(case, folder):
    """Return what `msprobe gate check` says about each variant, with a golden of the fixed run, and whether it names
    the bug: {"buggy": "red", "twin": "green", "named": True, ...}; a state is "failed" if there is no verdict.

    That nothing is updated names a bug whose truth has the invariant `updates`.
    """
    answers = {name: _read(folder / f"gate_{name}.json") for name in ("buggy", "twin", "noisy")}
    found = {name: STATES.get(answer.get("exit_code"), "failed") for name, answer in answers.items()}
    named, kind = _verdict(case.truth, answers["buggy"])
    noisy, _ = _verdict(case.truth, answers["noisy"])
    if "updates" in case.truth.check:
        untrained, untrained_noisy = (_kinds(answers[name])[:1] == ["nothing updated"] for name in ("buggy", "noisy"))
        named, kind, noisy = named or untrained, kind or untrained, noisy or untrained_noisy
    golden = folder / "fixed.golden"
    size = golden.stat().st_size if golden.exists() else None
    lines = {f"answer_{name}": _line(answers[name]) for name in answers}
    return {**found, "named": named, "kind": kind, "named_noisy": noisy, "bytes": size, **lines}


def of(case, folder):
    """Return the score of a case whose runs and answers are in a folder."""
    answer, twin, noisy = (_read(folder / f"compare_{name}.json") for name in ("buggy", "twin", "noisy"))
    check, check_fixed = (_read(folder / f"check_{name}.json") for name in ("buggy", "fixed"))
    named, kind = _verdict(case.truth, answer)
    named_noisy, kind_noisy = _verdict(case.truth, noisy)
    found = _kinds(check)
    output = first_output(folder / "buggy" / "dump", folder / "fixed" / "dump")
    twin_output = first_output(folder / "twin" / "dump", folder / "fixed" / "dump")
    hashes = _read(folder / "hashes.json")
    return {
        "failed": [v for v in ("fixed", "buggy", "twin", "noisy") if not (folder / v / "done").exists()],
        "named": named,
        "kind": kind,
        "named_noisy": named_noisy,
        "kind_noisy": kind_noisy,
        "answer": _line(answer),
        "answer_kind": _first(answer).get("kind"),
        "answer_noisy": _line(noisy),
        "twin": twin.get("state"),
        "twin_answer": _line(twin),
        "twin_differs": differing_bits(folder / "twin" / "dump", folder / "fixed" / "dump"),
        "check": found,
        "check_named": bool(set(found) & set(case.truth.check)),
        "check_alarm": _kinds(check_fixed),
        "loss": loss_differs(folder / "buggy", folder / "fixed"),
        "loss_twin": loss_differs(folder / "twin", folder / "fixed"),
        "output": output and output[0],
        "output_named": bool(output) and case.truth.accepts_name(*output),
        "output_twin": twin_output and twin_output[0],
        "hashes": hashes.get("buggy"),
        "hashes_twin": hashes.get("twin"),
        "gate": gate(case, folder),
    }


def _read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _first(answer):
    return (answer.get("findings") or [{}])[0]


def _line(answer):
    return re.sub(r"\(?/\S+/", "(", answer.get("answer") or "no answer").replace("|", "/")


def _kinds(answer):
    return list(dict.fromkeys(found["kind"] for found in answer.get("findings", ())))


def _verdict(truth, answer):
    """Return whether the first finding has an accepted place, and whether its kind is accepted too."""
    first = _first(answer)
    if answer.get("exit_code") != 1 or not first:
        return False, False
    named = truth.accepts_place(first)
    return named, named and truth.accepts_kind(first)


def loss_differs(target, golden):
    """Return whether the last loss of a rank differs by more than RTOL."""
    for path in sorted(golden.glob("loss*.json")):
        a, b = (np.array(_read(side / path.name) or [np.nan])[-1] for side in (target, golden))
        if not abs(a - b) <= RTOL * abs(b):
            return True
    return False


def _outputs(dump):
    """Yield (step, rank, call), cell and file of the outputs, in the order of the dump."""
    for file in sorted(dump.glob("step*/rank*/dump.json")):
        parents = json.loads((file.parent / "construct.json").read_text())
        for name in json.loads(file.read_text())["data"]:
            parent = re.match(r"(?:Module|Cell)\.(.+)\.\w+\.(?:forward|backward)", parents.get(name) or "")
            for path in sorted((file.parent / "dump_tensor_data").glob(f"{name}.output.*")):
                yield path.relative_to(dump), name, parent and parent[1]


def first_output(target, golden):
    """Return name and cell of the first output, in the order of the records, beyond RTOL of its greatest element."""
    for path, name, cell in _outputs(target):
        if not (golden / path).exists():
            continue
        a, b = (np.load(side / path, allow_pickle=False) for side in (target, golden))
        if a.shape != b.shape:
            return name, cell
        a, b = a.astype(np.float64), b.astype(np.float64)
        limit = RTOL * np.abs(b[np.isfinite(b)]).max(initial=0)
        if not np.allclose(a, b, rtol=0, atol=limit, equal_nan=True):
            return name, cell
    return None


def differing_bits(target, golden):
    """Return whether any output differs: whether the clean twin was a test at all."""
    for path, _, _ in _outputs(target):
        if not (golden / path).exists() or (target / path).read_bytes() != (golden / path).read_bytes():
            return True
    return False


HEAD = (
    "case",
    "framework",
    "named",
    "kind",
    "named, noisy",
    "twin",
    "check alone",
    "loss rtol",
    "output rtol",
    "DebugMode",
    "gate",
)
OTHER = "mindstudio-probe"


def _yes(value):
    return "yes" if value else "**no**"


def _gate_cell(gate):
    named = "" if gate["named"] or gate["buggy"] == "green" else ", **not named**"
    return f"{gate['buggy']}{named}, twin {gate['twin'] if gate['twin'] == 'green' else '**' + gate['twin'] + '**'}"


def row(case, s):
    """Return the cells of a case in the table."""
    check = "yes" if s["check_named"] else ("other: " + ", ".join(s["check"]) if s["check"] else "-")
    twin = {"clean": "clean", "differs": "**ALARM**", "unjudged": "undecided"}.get(s["twin"], "no answer")
    hashes = "-" if s["hashes"] is None else f"red, twin {'red' if s['hashes_twin'] else 'green'}"
    return (
        f"[{case.name}](cases/{case.name}.py)",
        f"{'MS' if case.framework == 'mindspore' else 'PT'}{' 2' if case.ranks > 1 else ''}",
        _yes(s["named"]),
        _yes(s["kind"]),
        _yes(s["named_noisy"]),
        twin + ("" if s["twin_differs"] else " (equal bits)"),
        check,
        "red" if s["loss"] else "green",
        "named" if s["output_named"] else ("other call" if s["output"] else "green"),
        hashes,
        _gate_cell(s["gate"]),
        *((_other_cell(s["other"]),) if "other" in s else ()),
    )


def _other_cell(other):
    """Return what the table of the other tool says of the buggy variant and of the twin."""
    return f"{other['table']['outcome']}, twin {other['table']['twin']}" if other else "-"


def table(chosen, scores):
    """Return the table of all cases, in Markdown."""
    head = (*HEAD, OTHER) if any("other" in s for s in scores) else HEAD
    rows = [head, ["---"] * len(head), *[row(c, s) for c, s in zip(chosen, scores, strict=True)]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def summary(chosen, scores):
    """Return the sums, in Markdown."""
    count = len(scores)

    def of(test):
        return sum(bool(test(s)) for s in scores)

    expected = sum(bool(c.truth.check) for c in chosen)
    hashed = [s for s in scores if s["hashes"] or s["hashes_twin"]]
    sizes = [s["gate"]["bytes"] for s in scores if s["gate"]["bytes"]]
    lines = [
        f"- first line right: {of(lambda s: s['named'])} of {count}; kind right too: {of(lambda s: s['kind'])}",
        f"- the same, if the buggy run sums in another order: {of(lambda s: s['named_noisy'])} of {count};"
        f" kind right too: {of(lambda s: s['kind_noisy'])}",
        f"- clean twins: {of(lambda s: s['twin'] == 'differs')} alarms, {of(lambda s: s['twin'] == 'unjudged')}"
        f" undecided, of {count}, {of(lambda s: s['twin_differs'])} of which differ in some bit",
        f"- `msprobe check` of the buggy run alone: an accepted invariant in {of(lambda s: s['check_named'])} of the"
        f" {expected} cases that can show there; alarms on the fixed run: {of(lambda s: s['check_alarm'])}",
        f"- last loss beyond rtol 1e-3: {of(lambda s: s['loss'])} of {count} red;"
        f" on twins {of(lambda s: s['loss_twin'])}",
        f"- first output beyond rtol 1e-3: an accepted call in {of(lambda s: s['output_named'])} of {count},"
        f" another call in {of(lambda s: s['output'] and not s['output_named'])};"
        f" on twins {of(lambda s: s['output_twin'])} red",
        f"- hashes of DebugMode (one PyTorch process): {sum(bool(s['hashes']) for s in hashed)} of {len(hashed)} red,"
        f" and {sum(bool(s['hashes_twin']) for s in hashed)} of their clean twins",
        f"- `msprobe gate check`, golden of the fixed run: {of(lambda s: s['gate']['buggy'] != 'green')} of {count} not"
        f" green, {of(lambda s: s['gate']['named'])} of which named in the first line;"
        f" with sums in another order {of(lambda s: s['gate']['noisy'] != 'green')} and"
        f" {of(lambda s: s['gate']['named_noisy'])}; on twins {of(lambda s: s['gate']['twin'] != 'green')} not green;"
        f" goldens have {min(sizes, default=0) // 1000} to {max(sizes, default=0) // 1000} kB",
    ]
    return "\n".join([*lines, *_other_lines([s["other"] for s in scores if s.get("other")])])


def _other_lines(others):
    """Return the sums of the two readings of the other tool, if there are any."""
    lines = []
    for title, reading in (("first marked row of its table", "table"), ("its option `-da`", "diff_analyze")):
        answers = [other[reading] for other in others]
        found, twins = (Counter(answer[key] for answer in answers) for key in ("outcome", "twin"))
        strict = sum(answer.get("strict", False) for answer in answers)
        lines.append(
            f"- `{OTHER}`, {title}: accepted in {found['named']} of {len(others)} ({strict} by the own name of the"
            f" call), another call in {found['other call']}, nothing in {found['green']}, failed in {found['failed']};"
            f" on twins {twins['red']} red, {twins['failed']} failed"
        )
    anywhere = sum(other["table"].get("anywhere", False) for other in others)
    lines.append(f"- `{OTHER}`, any marked row of the step that has the first one: accepted in {anywhere}")
    return lines if others else []


def not_named(chosen, scores):
    """Return what the tool says where it is wrong, in Markdown."""
    lines = []
    for c, s in zip(chosen, scores, strict=True):
        accepted = ", ".join((*c.truth.calls, *c.truth.parameters))
        if not s["named"]:
            lines.append(f"- `{c.name}`: expected {accepted}. Says: {s['answer']}")
        elif not s["kind"]:
            lines.append(f"- `{c.name}` (kind): expected {', '.join(c.truth.kinds)}. Says: {s['answer']}")
        if s["named"] and not s["named_noisy"]:
            lines.append(f"- `{c.name}` (noisy): expected {accepted}. Says: {s['answer_noisy']}")
        if s["twin"] == "differs":
            lines.append(f"- `{c.name}` (alarm on the twin): {s['twin_answer']}")
        if not s["gate"]["named"]:
            lines.append(f"- `{c.name}` (gate): expected {accepted}. {s['gate']['answer_buggy']}")
        if s["gate"]["twin"] != "green":
            lines.append(f"- `{c.name}` (gate, not green on the twin): {s['gate']['answer_twin']}")
        if c.truth.check and not s["check_named"]:
            lines.append(
                f"- `{c.name}` (check): expected {', '.join(c.truth.check)}, found {', '.join(s['check']) or 'nothing'}"
            )
        if s["check_alarm"]:
            lines.append(f"- `{c.name}` (check, alarm on the fixed run): {', '.join(s['check_alarm'])}")
        if s.get("other"):
            answers = s["other"]["table"], s["other"]["table"]["twin_answer"]
            lines += [f"- `{c.name}` ({OTHER}): {answer['reason']}" for answer in answers if "reason" in answer]
    return "\n".join(lines)


def write_results(chosen, scores, task):
    """Replace the part of RESULTS.md after its marker."""
    path = HERE / "RESULTS.md"
    kept = path.read_text().partition(MARKER)[0] if path.exists() else "# Results\n\n"
    path.write_text(
        f"{kept}{MARKER}\n\n## Now\n\nTask `{task}`.\n\n{summary(chosen, scores)}\n\n{table(chosen, scores)}\n\n"
        f"### Not named\n\n{not_named(chosen, scores)}\n"
    )


MARKER = "<!-- The rest is written by run.py --results. -->"
