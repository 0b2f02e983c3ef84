"""Messages in Chinese: complete, with the placeholders of the English templates, and without remains."""

import ast
import re
from collections import Counter
from pathlib import Path

from phrase_templates import every

from msprobe.findings import translations
from msprobe.findings.kinds import EVERY
from msprobe.findings.texts import texts

CHINESE = texts()["templates"]


def test_every_sentence_is_there_in_both_languages():
    """Reasons, evidence and advice: each template that a command can write, with the same placeholders in Chinese."""
    templates, unknown = every()
    assert not unknown, f"say in phrase_templates.py which templates these can be: {unknown}"
    with_words = [template for template in templates if re.search("[A-Za-z]", PLACEHOLDER.sub("", template))]
    missing = [template for template in with_words if template not in CHINESE]
    assert not missing, f"translate them in msprobe_ms/findings/chinese: {missing}"
    others = [each for each in with_words if set(PLACEHOLDER.findall(each)) != set(PLACEHOLDER.findall(CHINESE[each]))]
    assert not others, f"these have other placeholders in Chinese: {others}"
    english = [each for each in with_words if not re.search("[\u4e00-\u9fff]", CHINESE[each])]
    assert set(english) == SAME_IN_CHINESE
    assert not set(CHINESE) - set(templates), "messages that no command writes"


SAME_IN_CHINESE = {
    "float32",
    "bfloat16",
    *("beta1", "beta2", "eps", "dtype", "ulp", "dropout", "loss", "actor", "critic", "reference", "APIs"),
    *("step {numbers}", "steps {numbers}", "rank {numbers}", "ranks {numbers}", "step {step}, rank {rank}"),
    *("at step {step}, rank {rank}", " of step {step}", " (ranks {ranks})"),
    "gate: {state}: {line}",
}
"""Words of the field that are not translated."""


PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def test_each_template_is_translated_once():
    """A template in two tables, or twice in one, would have the last translation, whatever the first one says."""
    folder = Path(translations.__file__).parent / "chinese"
    found = Counter(
        key.value
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Dict)
        for key in node.keys
    )
    assert set(found) == set(translations.CHINESE)
    assert [template for template, number in found.items() if number > 1] == []


def test_the_message_of_a_kind_is_translated_in_the_catalogue_only():
    """Kinds that share a sentence have one translation of it."""
    found = {(text.english, text.chinese) for kind in EVERY for text in kind.messages.values()}
    assert len(dict(found)) == len(found)
    assert not dict(found).keys() & translations.CHINESE.keys()
