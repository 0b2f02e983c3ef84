"""Every template of a phrase: those that stand where the phrase is made, and those of tables."""

import ast
import re
from pathlib import Path

import msprobe
from msprobe.base.verdicts import Gap
from msprobe.checks.invariants.table import ROWS
from msprobe.compare.config_check.findings import Checker, Kind, OneSided
from msprobe.compare.core.limits import LimitSource
from msprobe.compare.core.noise import KernelPrecision, Sign
from msprobe.compare.core.reason import Cause as CauseOfUnjudged
from msprobe.compare.explain import text as explained
from msprobe.compare.jobs import answer as answers
from msprobe.compare.judge import decision
from msprobe.compare.judge import wording as judge
from msprobe.compare.locate import wording as locate
from msprobe.compare.locate.finding import UpdateCause
from msprobe.compare.monitor.band import Basis
from msprobe.compare.monitor.unjudged import Reason as NotJudged
from msprobe.compare.noise.identities import Law
from msprobe.compare.rl import wording as flows
from msprobe.compare.rl.configurations import NUMERIC, PLACE
from msprobe.compare.rl.order import FLOW
from msprobe.compare.tables import console
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.kinds import EVERY, kinds_in
from msprobe.gate.judge import WORDS
from msprobe.graft.propagate import Obstacle
from msprobe.graft.report import FLOORS
from msprobe.precheck import judge as precheck
from msprobe.precheck.check import Why as NotChecked
from msprobe.precheck.judge import Reason
from msprobe.precheck.standards import Criterion
from msprobe.replay.recorded import Cause as NotReplayed
from msprobe.store.monitor.layout import KINDS as MONITORED
from msprobe.store.monitor.lines import Cause as LeftOut

PACKAGE = Path(msprobe.__file__).parent

MAKES_PHRASES = re.compile(r"from (?:msprobe\.base)?\.phrase import")

MAKERS = {"phrase": 0, "Phrase": 0, "joined": 1}
"""What makes phrases, and which of its arguments is the template."""

MODES = ["tensor", "statistics", "digest"]
"""`compare.judge.judged.Mode`."""

TABLES = {
    "_BEYOND": [judge._BEYOND],
    "_ANY_AMOUNT": [judge._ANY_AMOUNT],
    "_TIMES": [judge._TIMES],
    "words": [words for words in judge._WORDS.values() if isinstance(words, str)],
    "f'{{number}} {each.cause.value}'": [f"{{number}} {each.value}" for each in NotJudged],
    "cause.value": [cause.value for enum in (CauseOfUnjudged, LeftOut, Gap) for cause in enum],
    "comparison.mode": MODES,
    "mode": MODES,
    "BLIND[mode]": console.BLIND.values(),
    "BLIND['statistics']": [console.BLIND["statistics"]],
    "title": [
        "no difference",
        "no difference beyond rounding",
        "no difference but what your limits excuse",
        "no difference in what could be judged",
        "no difference in what both sides have",
    ],
    "one": ["{number} call", "{number} value"],
    "several": ["{number} calls", "{number} values"],
    "_RULES[decision.rule]": decision._RULES.values(),
    "_WITHOUT_SIGN[found.sign]": decision._WITHOUT_SIGN.values(),
    "_ORIGINS[record.origin]": explained._ORIGINS.values(),
    "decision.cause.value": [cause.value for cause in CauseOfUnjudged],
    "found.source.value": [source.value for source in LimitSource if source is not LimitSource.BUILT_IN],
    "found.is_of.value": [precision.value for precision in KernelPrecision],
    "found.sign.value": [sign.value for sign in Sign if sign is not Sign.NONE],
    "r.name": [one.value for enum in (Sign, Law) for one in enum if one is not Sign.NONE],
    "reason.names[0]": [source.value for source in LimitSource if source is not LimitSource.BUILT_IN],
    "why.value": [why.value for enum in (NotChecked, NotReplayed, Obstacle) for why in enum],
    "stage_of[kind]": sorted({kind.stage.name for kind in MONITORED.values()}),
    "result.basis.value": [basis.value for basis in Basis],
    "WORDS[verdict.state]": WORDS.values(),
    "FLOORS[proof.floor.source]": FLOORS.values(),
    "outcome.checker.value": [checker.value for checker in Checker],
    "row.checker.value": [checker.value for checker in Checker],
    "outcome.one_sided.value": [one.value for one in OneSided if one.value],
    "row.kind.value": [kind.value for kind in Kind if kind not in (Kind.EQUAL, Kind.DIFFERS)],
    "_ORIGINS[first.origin][0]": [says for says, _ in flows._ORIGINS.values()],
    "look": [look for _, look in flows._ORIGINS.values() if look],
    "item.model": sorted({part.model for part in FLOW if part.model}),
    "FLOW[item.part].after": [part.after for part in FLOW],
    "_INPUTS.get(item.finding.kind if item.finding else kinds.UNKNOWN, _ALL_INPUTS)": [
        flows._ALL_INPUTS,
        *flows._INPUTS.values(),
    ],
    "templates[len(names) != 1]": [*flows._STAGES_BEFORE, *flows._KEYS_BEFORE, *flows._KEYS_READ],
    "templates[len(numbers) > 1]": [*flows._STEPS, *flows._RANKS],
    "each.meaning.changes": [meaning.changes for meaning in (*NUMERIC, PLACE)],
    "_BLIND": [locate._BLIND],
    "_POSSIBLE[cause]": locate._POSSIBLE.values(),
    "_POSSIBLE[one.cause]": locate._POSSIBLE.values(),
    "one.cause.value": [cause.value for cause in UpdateCause],
    "_MISSING[found.missing]": locate._MISSING.values(),
    "finding.kind.name": [kind.name for kind in kinds_in(kinds)],
    "_DRAWS[found.has_other_names, found.is_dropout]": locate._DRAWS.values(),
    "_HARMLESS[found.ground]": locate._HARMLESS.values(),
    "_LOOK_AT_GRADIENT": [locate._LOOK_AT_GRADIENT],
    "self.look.english": [kind.look.english for kind in EVERY],
    "_LOOK_AT_EXCHANGE": [answers._LOOK_AT_EXCHANGE],
    "template": [
        *precheck._NUMBERS.values(),
        "{where}: only the {side} makes this call (compared by {mode})",
    ],
    "self.messages[variant].english": [text.english for kind in EVERY for text in kind.messages.values()],
    "row.says": [row.says for row in ROWS],
    "row.source": [row.source for row in ROWS],
    "held": ["inputs: {values}", "outputs: {values}"],
    "none": ["inputs: finite, or not recorded", "outputs: finite, or not recorded"],
    "self.reason.value": [reason.value for reason in Reason],
    "judgement.criterion.value": [criterion.value for criterion in Criterion],
}
"""What stands for a template in the source, and the templates that it can be."""


def arguments(source):
    """The templates of all calls that make phrases in a source text: literals, and other expressions."""
    literals, others = [], []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
            given = node.args[MAKERS[node.func.id] :][:1]
            for one in (one for each in given for one in choices(each)):
                if isinstance(one, ast.Constant):
                    literals.append(one.value)
                else:
                    others.append(ast.unparse(one))
    return literals, others


def choices(expression):
    """What an expression of conditions can be."""
    if isinstance(expression, ast.IfExp):
        return [*choices(expression.body), *choices(expression.orelse)]
    return [expression]


def every():
    """All templates, each once; and what stands for a template somewhere and is not in `TABLES`."""
    found, unknown = dict.fromkeys(text for table in TABLES.values() for text in table), []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if not MAKES_PHRASES.search(text):
            continue
        literals, others = arguments(text)
        found |= dict.fromkeys(literals)
        unknown += [f"{path.relative_to(PACKAGE)}: {other}" for other in others if other not in TABLES]
    return [*found, "{listed} and {number} more"], unknown
