"""Compare the dumps as a user does, and hold each answer to the truth."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import truth as truths

FIRST = 3


@dataclass(frozen=True)
class Row:
    """What a comparison said of one case, and whether it is right."""

    task: str
    model: str
    case: str
    group: str
    """`clean`, or the set of the bug."""
    exit_code: int
    findings: tuple
    is_exact: bool
    is_near: bool
    is_kind: bool

    @property
    def answer(self):
        """The first finding in a few words."""
        if not self.findings:
            return "no difference" if self.exit_code == 0 else "no difference in what could be judged (exit code 1)"
        first = self.findings[0]
        return f"{first['name']} in {first['cell'] or 'the root'}: {first['kind']}: {first['reason']}"


def score(folder, tasks, models, cases):
    """A row for every case whose dumps are in the folder."""
    rows = []
    for task in tasks:
        for model in models:
            for name, bug in cases.items():
                if (bug is None or bug["model"] == model) and (folder / task / model / name / "target").is_dir():
                    rows.append(_row(folder / task / model / name, task, model, name, bug))
                    print(_line(rows[-1]), file=sys.stderr, flush=True)
    return rows


def compare(case):
    """Exit code and findings of `msprobe compare` for the dumps of one case."""
    program = Path(sys.executable).with_name("msprobe")
    with tempfile.TemporaryDirectory() as out:
        command = [
            program if program.exists() else "msprobe",
            "compare",
            "--workers",
            "1",
            "--format",
            "json",
            "-o",
            out,
        ]
        command += ["-tp", case / "target", "-gp", case / "golden"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        files = sorted(Path(out).rglob("compare_summary*.json")) or sorted(Path(out).rglob("compare_result*.json"))
        if not files:
            raise RuntimeError(f"{case}: {done.stderr[-2000:]}")
        report = json.loads(files[0].read_text())
        findings = list(report["first_wrong"])
        for table in sorted(Path(out).rglob("compare_result*.json")):
            own = json.loads(table.read_text())
            if own.get("first_wrong") and (not findings or own["first_wrong"][0]["name"] == findings[0]["name"]):
                findings = findings[:1] or own["first_wrong"]
                findings += own["next_beginnings"]
                break
    return done.returncode, tuple(findings)


def _row(case, task, model, name, bug):
    code, findings = compare(case)
    written = bug or truths.real_differences().get(model)
    truth = truths.truth_of(written)
    if truth.where:
        exact = bool(findings) and truth.accepts(findings[0])
        near = any(truth.accepts(finding) for finding in findings[:FIRST])
        kind = exact and truth.accepts_kind(findings[0])
    else:
        exact = near = kind = not findings
    return Row(task, model, name, bug["set"] if bug else "clean", code, findings, exact, near, kind)


def _line(row):
    verdict = "right" if row.is_exact else "near " if row.is_near else "WRONG"
    return f"{verdict} {row.task} {row.model} {row.case}: {row.answer[:300]}"


def table(rows):
    """The results as text in Markdown."""
    lines = ["| task | set | cases | first line right | right, and of the right kind | among the first three |"]
    lines.append("|---|---|---|---|---|---|")
    for task in dict.fromkeys(row.task for row in rows):
        for group in ("clean", "tuning", "held out"):
            mine = [row for row in rows if (row.task, row.group) == (task, group)]
            if mine:
                counts = [sum(getattr(row, name) for row in mine) for name in ("is_exact", "is_kind", "is_near")]
                lines.append(f"| {task} | {group} | {len(mine)} | " + " | ".join(map(str, counts)) + " |")
    lines += [
        "",
        "| model | clean, tensor | clean, statistics | bugs, tensor | bugs, statistics |",
        "|---|---|---|---|---|",
    ]
    lines += [_of_model(model, rows) for model in dict.fromkeys(row.model for row in rows)]
    lines += [
        "",
        "What is said of each case:",
        "",
        "| task | model | case | | first finding |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        verdict = "right" if row.is_exact else "among three" if row.is_near else "wrong"
        lines.append(f"| {row.task} | {row.model} | {row.case} | {verdict} | {_cell(row.answer)} |")
    return "\n".join(lines) + "\n"


def _of_model(model, rows):
    cells = []
    for is_clean in (True, False):
        for task in ("tensor", "statistics"):
            mine = [r for r in rows if (r.model, r.task, r.group == "clean") == (model, task, is_clean)]
            right = sum(row.is_exact for row in mine)
            text = ("right" if right else "wrong") if is_clean else f"{right} of {len(mine)}"
            cells.append(text if mine else "-")
    return f"| {model} | " + " | ".join(cells) + " |"


def _cell(text, most=260):
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= most else text[: most - 3] + "..."
