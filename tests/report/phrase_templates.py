"""Every template of a phrase: those that stand where the phrase is made, and those of tables."""

import ast
from pathlib import Path

import msprobe
from msprobe.checks.invariants import wording as invariants
from msprobe.checks.invariants.table import ROWS
from msprobe.checks.nonfinite import wording as nonfinite
from msprobe.compare.jobs import report as jobs
from msprobe.compare.judge import wording as judge
from msprobe.compare.judge.verdict import Cause as CauseOfUnjudged
from msprobe.compare.locate import wording as locate
from msprobe.compare.locate.finding import FindingKind, UpdateCause
from msprobe.compare.monitor.finding import Cause
from msprobe.precheck import wording as precheck
from msprobe.precheck.judge import Reason
from msprobe.precheck.standards import Criterion

PACKAGE = Path(msprobe.__file__).parent

MAKERS = {"phrase": 0, "Phrase": 0, "joined": 1}
"""What makes phrases, and which of its arguments is the template."""

TABLES = {
    "words": [words for words in judge._WORDS.values() if isinstance(words, str)],
    "cause.value": [cause.value for cause in CauseOfUnjudged],
    "_BLIND": [locate._BLIND],
    "_POSSIBLE[cause]": locate._POSSIBLE.values(),
    "one.cause.value": [cause.value for cause in UpdateCause],
    "_MISSING[found.missing]": locate._MISSING.values(),
    "finding.kind.value": [kind.value for kind in FindingKind],
    "_LOOK_AT_GRADIENT": [locate._LOOK_AT_GRADIENT],
    "_LOOK[found.kind]": locate._LOOK.values(),
    "_LOOK_AT_EXCHANGE": [jobs._LOOK_AT_EXCHANGE],
    "_LOOK[kind]": nonfinite._LOOK.values(),
    "_LOOK[name]": invariants._LOOK.values(),
    "template": [*invariants._TEXTS.values(), *precheck._COMPARED.values()],
    "row.says": [row.says for row in ROWS],
    "row.source": [row.source for row in ROWS],
    "held": ["inputs: {values}", "outputs: {values}"],
    "none": ["inputs: finite, or not recorded", "outputs: finite, or not recorded"],
    "finding.cause.value": [cause.value for cause in Cause],
    "judgement.reason.value": [reason.value for reason in Reason],
    "judgement.criterion.value": [criterion.value for criterion in Criterion],
}
"""What stands for a template in the source, and the templates that it can be."""


def arguments(source):
    """The templates of all calls that make phrases in a source text: literals, and other expressions."""
    literals, others = [], []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
            given = node.args[MAKERS[node.func.id] :][:1]
            for each in given:
                for one in [each.body, each.orelse] if isinstance(each, ast.IfExp) else [each]:
                    if isinstance(one, ast.Constant):
                        literals.append(one.value)
                    else:
                        others.append(ast.unparse(one))
    return literals, others


def every():
    """All templates, each once; and what stands for a template somewhere and is not in `TABLES`."""
    found, unknown = dict.fromkeys(text for table in TABLES.values() for text in table), []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if "msprobe.base.phrase" not in text:
            continue
        literals, others = arguments(text)
        found |= dict.fromkeys(literals)
        unknown += [f"{path.relative_to(PACKAGE)}: {other}" for other in others if other not in TABLES]
    return [*found, "{listed} and {number} more"], unknown
