"""The law of findings: they are data, sentences are made last, and no code of the comparison reads one."""

import ast

PRINTS = {
    "msprobe.compare.checkpoint.compare": "the answer of two checkpoints",
    "msprobe.compare.suggest.mapping_files": "a mapping with the reason beside each rule",
    "msprobe.compare.key_data.comparator": "the table of single tensors",
    "msprobe.compare.ranks.search": "a node of the ranks' file",
    "msprobe.compare.tables.rows": "the table",
    "msprobe.compare.rollout.diagnosis": "the answer of a rollout",
    "msprobe.compare.rollout.entry": "the file of a rollout",
    "msprobe.compare.judge.judged": "`Comparison.reason`, for whoever prints",
    # A failure of a worker process, which the operating system says in words.
    "msprobe.compare.jobs.calibration": "the failure of a job",
    "msprobe.compare.jobs.run": "the failure of a job",
    "msprobe.compare.jobs.first": "the failure of a job",
    "msprobe.compare.digest_verb": "the failure of a job",
    "msprobe.compare.measure.files": "the failure of a measurement",
    "msprobe.compare.jobs.summary": "the findings of merging on the console",
    "msprobe.compare.graph_visualize.verb": "the findings of a graph in the log",
    # Handed on as the one field of a reason.
    "msprobe.compare.match.cross_framework": "why the search for counterparts made a pair",
}
"""The modules that may ask for a sentence, and what they print or hand on."""

PROSE = {
    "reason",
    "reasons_of",
    "sentence",
    "sentences",
    "message",
    "said",
    "reason_phrase",
    "says",
    "text",
    "then",
    "why",
    "words",
}
SEARCHES = {"count", "endswith", "find", "fullmatch", "index", "match", "partition", "removeprefix", "removesuffix"}
SEARCHES |= {"replace", "rfind", "rpartition", "search", "split", "startswith"}

NO_SENTENCE = {
    ("msprobe.compare.rl.configurations", "f' {known} ' in text"): "the name of a user's setting",
    ("msprobe.compare.jobs.outcome", "target.family == 'single saves'"): "a kind of folder",
    ("msprobe.compare.jobs.plan", "kind.word == 'single saves'"): "the same",
    ("msprobe.compare.core.tensor", "_FROM_CALL.fullmatch(text)"): "where a record comes from, as the dump has it",
    ("msprobe.compare.core.tensor", "text.removeprefix(_FROM_PARAMETER)"): "the same",
    ("msprobe.compare.core.tensor", "text.startswith(_FROM_PARAMETER)"): "the same",
    ("msprobe.compare.merge.merge", "f'{entry}.' in text"): "the name of an API, and an entry of the user's list",
    ("msprobe.compare.merge.tables", "_DECIMAL.fullmatch(text)"): "a cell of a table that is read",
    ("msprobe.compare.merge.tables", "_WHOLE.fullmatch(text)"): "the same",
    ("msprobe.compare.noise.kernels", "_word(text.partition('=')[2]) in words"): "the label of an option, `eps=1e-05`",
    ("msprobe.compare.noise.kernels", "text.partition('=')"): "the same",
    ("msprobe.compare.tables.cells", "';' not in text"): "a cell that is made harmless",
    ("msprobe.compare.tables.cells", "_FORMULA.search(text)"): "the same",
    ("msprobe.compare.tables.cells", "_NOT_IN_A_SHEET.search(text)"): "the same",
    ("msprobe.compare.tables.cells", "_NUMBER.match(text)"): "the same",
    ("msprobe.compare.tables.sheet", "line.text == ''"): "whether a line of the summary has a value",
    ("msprobe.compare.tables.sheet", "text.index('<row ')"): "the XML of a sheet",
    ("msprobe.compare.tables.sheet", "text.replace('&', '&amp;')"): "the same",
    ("msprobe.compare.rollout.alignment", "text.startswith(nearest)"): "the text of a response",
}
"""What looks like a search in a sentence and is one in something else."""


def of_compare(modules):
    return [m for m in modules if m.name.startswith(("msprobe.compare.", "msprobe.diagnose."))]


def last_name(node):
    """`reason` of `a.b.reason`, of `reason` and of `reason(x)`."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def texts(node):
    """The texts that stand in the code as this expression, or in it as a tuple, list or set."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return [text for each in node.elts for text in texts(each)]
    is_text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [ast.unparse(node)] if is_text else []


def compares_a_sentence(operator, left, right):
    """Whether something is looked for in a sentence, or a sentence held against a text; two words are one, too."""
    if isinstance(operator, ast.In | ast.NotIn):
        return last_name(right) in PROSE or " " in "".join(texts(right))
    if not isinstance(operator, ast.Eq | ast.NotEq):
        return False
    sides = (left, right), (right, left)
    return any(texts(one) and (last_name(other) in PROSE or " " in "".join(texts(one))) for one, other in sides)


def searches(tree):
    """The expressions that look for something in what is called like a sentence."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False)
            if any(compares_a_sentence(*part) for part in parts):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            receiver, arguments = last_name(node.func.value), {last_name(each) for each in node.args}
            if receiver in {*PROSE, "kind"} or arguments & PROSE:
                yield node


def test_sentences_are_asked_for_by_what_prints_them(modules):
    reads = {
        m.name
        for m in of_compare(modules)
        for node in ast.walk(m.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in ("reason", "reasons_of")
    }
    assert reads == set(PRINTS), "decide by the evidence, not by a sentence"


def test_no_code_looks_into_a_sentence(modules):
    found = {(m.name, ast.unparse(node)) for m in of_compare(modules) for node in searches(m.tree)}
    assert found == set(NO_SENTENCE), "give what is looked for a field of its own"
