"""Matching on random programs whose edits are known, so that every call's right partner is known by construction.

A program is a tree of cells and API calls. It runs forward, then backward in reverse order; numbers are counted per
stem, as a collector counts them. The target is the same tree after random edits: a node keeps its identity through
them, and a call's identity is its node's, its direction, and which execution of the node it is.

What nobody can decide counts as right: calls of one *kind*, that is of equal stem, direction, enclosing cell and
shapes, cannot be told apart when some of them are missing. So a call may have the partner of a sibling of its kind, as
long as no call overtakes another and each kind has as many pairs as calls survived. Where every call has a kind of its
own, the partners must be exact.
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.match.calls import match_calls
from msprobe.store.record import Call, Dump, Record

OPERATIONS = ("Mint.add", "Functional.relu", "Mint.matmul", "Tensor.reshape")
CLASSES = ("Dense", "Block", "LayerNorm", "Act")
FOREIGN = (7, 7, 7)
"""A shape that no generated program has: what is inserted with it is like nothing that was deleted."""


@dataclass
class Node:
    """A cell with children, or an API call; `times` is how often its parent runs it in a row."""

    kind: str  # class of a cell, stem of an API call
    shape: tuple[int, ...]
    attribute: str = ""
    children: list["Node"] = field(default_factory=list)
    times: int = 1
    uid: object = None
    recomputed: bool = False
    called: str = ""  # a cell's new name in the target

    @property
    def is_cell(self) -> bool:
        return bool(self.attribute)


@dataclass(frozen=True)
class Run:
    """One executed call: what a dump says of it, who it is, and what it cannot be told apart from."""

    call: Call
    uid: object
    kind: tuple[object, ...]


def tensor(name, part, shape):
    return Record(f"{name}.{part}.0", part, ("0",), "tensor", "mindspore.Tensor", "Float32", shape)


class Execution:
    """Runs a program and writes down its calls, numbers counted per stem from `offset`."""

    def __init__(self, offset=0, marks=True):
        self.runs, self.numbers, self.marks = [], Counter(), marks
        self.offset, self.times = offset, Counter()

    def step(self, root):
        """Forward, loss, backward. Without the loss nobody could see where the forward of an unmarked dump ends."""
        ran = self.forward(root, "", "", None, None)
        loss = Node("Functional.cross_entropy", (), uid="loss")
        self.backward(loss, self.forward(loss, "", "", None, None), None)
        self.backward(root, ran, None)
        return self

    def forward(self, node, path, true_path, parent, true_parent, again=False):
        """Returns what backward needs: the node, its number, and the same of what ran inside."""
        mine = f"{path}.{node.called or node.attribute}".strip(".")
        true = f"{true_path}.{node.attribute}".strip(".")
        stem, true_stem = (f"Cell.{mine}.{node.kind}", f"{true}.{node.kind}") if node.is_cell else (node.kind,) * 2
        number = self.numbers[stem] + self.offset
        self.numbers[stem] += 1
        name = f"{stem}.forward.{number}" if node.is_cell else f"{stem}.{number}.forward"
        inside = []
        for child in node.children:
            for _ in range(child.times):
                inside.append(self.forward(child, mine, true, name, true_stem, again))
        ran = self.times[node.uid, again]
        self.times[node.uid, again] += 1
        self.note(name, node, ("forward", ran, again), (true_stem, true_parent), parent, again)
        return node, stem, number, (path, true_path, true_stem, true_parent), inside, ran

    def backward(self, node, ran, parent):
        node, stem, number, (path, true_path, true_stem, true_parent), inside, time = ran
        if node.recomputed:
            _, stem, number, _, inside, _ = self.forward(node, path, true_path, None, None, again=True)
        name = f"{stem}.backward.{number}" if node.is_cell else f"{stem}.{number}.backward"
        for child in reversed(inside):
            self.backward(child[0], child, name)
        self.note(name, node, ("backward", time, False), (true_stem, true_parent), parent, False)

    def note(self, name, node, which, place, parent, again):
        records = (tensor(name, "input", node.shape), tensor(name, "output", node.shape))
        call = Call(name, records, parent, is_recompute=again and self.marks)
        self.runs.append(Run(call, (node.uid, *which), (*place, which[0], again, node.shape)))


shapes = st.sampled_from([(2, 2), (2, 4), (8,)])


@st.composite
def programs(draw, distinct=False):
    """A network of up to three levels; with `distinct` no two nodes have one shape."""
    uids = count()

    def shape(uid):
        return (uid + 10, 1) if distinct else draw(shapes)

    def node(depth):
        uid = next(uids)
        if depth < 3 and draw(st.booleans()):
            children = [node(depth + 1) for _ in range(draw(st.integers(1, 4)))]
            times = draw(st.sampled_from([1, 1, 1, 2]))
            return Node(draw(st.sampled_from(CLASSES)), shape(uid), f"c{uid}", children, times, uid)
        return Node(draw(st.sampled_from(OPERATIONS)), shape(uid), uid=uid)

    uid = next(uids)
    return Node("Net", shape(uid), "net", [node(1) for _ in range(draw(st.integers(2, 6)))], uid=uid)


def nodes(root, which=lambda node: True):
    found = [root] if which(root) else []
    for child in root.children:
        found += nodes(child, which)
    return found


def cells(root):
    return nodes(root, lambda node: node.is_cell)


def delete(draw, root):
    for _ in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from(cells(root)))
        if len(parent.children) > 1:
            del parent.children[draw(st.integers(0, len(parent.children) - 1))]


def insert(draw, root, shape=None):
    """API calls whose stems occur elsewhere, so that the numbers behind them shift."""
    for n in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from(cells(root)))
        new = Node(draw(st.sampled_from(OPERATIONS)), shape or draw(shapes), uid=("new", n))
        parent.children.insert(draw(st.integers(0, len(parent.children))), new)


def recompute(draw, root):
    for cell in draw(st.lists(st.sampled_from(cells(root)), min_size=1, max_size=3)):
        if cell is not root and not any(inner.recomputed for inner in cells(cell)):
            cell.recomputed = True
    for cell in cells(root):  # a recomputation inside a recomputation is another matter
        if cell.recomputed:
            for inner in cells(cell)[1:]:
                inner.recomputed = False


def rename(draw, root):
    cell = draw(st.sampled_from(cells(root)))
    cell.called = "renamed"


def matches(target, golden):
    return match_calls(*(Dump("", "", "statistics", "mix", "mindspore", calls) for calls in (target, golden)))


def both_ways(target, golden):
    """The match of target and golden, checked for what always holds; and as runs, in both directions of comparing."""
    for a, b in ((target, golden), (golden, target)):
        found = matches([r.call for r in a], [r.call for r in b])
        assert [m.target for m in found] == sorted({m.target for m in found})
        assert len({m.golden for m in found}) == len(found)
        for direction in ("forward", "backward"):
            order = [m.golden for m in found if direction in a[m.target].kind]
            assert order == sorted(order), f"{direction} calls out of order"
        for m in found:
            assert m.by == expected_label(a[m.target].call.name, b[m.golden].call.name)
        yield a, b, {m.target: m.golden for m in found}


def expected_label(mine, theirs):
    if mine == theirs:
        return "name"
    without = [".".join(part for part in name.split(".") if not part.isdigit()) for name in (mine, theirs)]
    return "renumbered" if without[0] == without[1] else "structure"


def assert_survivors_have_partners(target, golden, *, replaced=False):
    """Every call that both sides have is in a pair of its kind, as often as it survived; nothing else is in a pair.

    With `replaced`, what was inserted may have what was deleted at the same place: that may be one call, reshaped.
    """
    for a, b, partner in both_ways(target, golden):
        survived = Counter(r.kind for r in a if r.uid in {other.uid for other in b})
        pairs = [(a[i], b[j]) for i, j in partner.items()]
        assert Counter(x.kind for x, y in pairs if x.kind == y.kind) >= survived
        others = [(x, y) for x, y in pairs if x.kind != y.kind]
        if replaced:
            assert all(x.kind[:3] == y.kind[:3] for x, y in others)
        else:
            assert not others


def assert_partners_are_exact(target, golden):
    for a, b, partner in both_ways(target, golden):
        where = {run.uid: j for j, run in enumerate(b)}
        assert {i: where[run.uid] for i, run in enumerate(a) if run.uid in where} == partner


@given(programs())
def test_the_same_program_pairs_by_name(program):
    runs = Execution().step(program).runs
    found = matches([r.call for r in runs], [r.call for r in runs])
    assert [(m.target, m.golden, m.by) for m in found] == [(i, i, "name") for i in range(len(runs))]


@given(programs(), st.integers(1, 50))
def test_numbers_that_begin_elsewhere_pair_exactly(program, offset):
    golden = Execution().step(program).runs
    target = Execution(offset).step(program).runs
    assert_partners_are_exact(target, golden)


@given(programs(), st.data())
def test_deleted_calls_do_not_shift_what_follows(program, data):
    edited = deepcopy(program)
    delete(data.draw, edited)
    assert_survivors_have_partners(Execution().step(edited).runs, Execution().step(program).runs)


@given(programs(), st.data())
def test_inserted_calls_do_not_shift_what_follows(program, data):
    edited = deepcopy(program)
    insert(data.draw, edited)
    assert_survivors_have_partners(Execution().step(edited).runs, Execution().step(program).runs)


@given(programs(distinct=True), st.data(), st.integers(0, 3))
def test_where_every_call_can_be_told_apart_every_partner_is_exact(program, data, offset):
    edited = deepcopy(program)
    for node in nodes(edited):
        node.times = 1
    program = deepcopy(edited)
    insert(data.draw, edited, FOREIGN)
    golden = Execution().step(program).runs
    assert_partners_are_exact(Execution(offset).step(edited).runs, golden)


@given(programs(), st.data())
def test_recomputed_calls_do_not_shift_what_follows(program, data):
    edited = deepcopy(program)
    recompute(data.draw, edited)
    marks = data.draw(st.booleans())
    assert_survivors_have_partners(Execution(marks=marks).step(edited).runs, Execution().step(program).runs)


@given(programs(), st.data())
def test_recomputed_calls_pair_with_recomputed_calls(program, data):
    recompute(data.draw, program)
    edited = deepcopy(program)
    insert(data.draw, edited)
    target = Execution(marks=data.draw(st.booleans())).step(edited).runs
    golden = Execution(marks=data.draw(st.booleans())).step(program).runs
    assert_survivors_have_partners(target, golden)


@given(programs(), st.data())
def test_everything_at_once(program, data):
    edited = deepcopy(program)
    delete(data.draw, edited)
    insert(data.draw, edited, FOREIGN)
    golden = Execution().step(program).runs
    target = Execution(offset=data.draw(st.integers(0, 3))).step(edited).runs
    assert_survivors_have_partners(target, golden, replaced=True)


@given(programs(), st.data())
def test_a_renamed_cell_takes_along_what_is_inside(program, data):
    edited = deepcopy(program)
    rename(data.draw, edited)
    assert_survivors_have_partners(Execution().step(edited).runs, Execution().step(program).runs)


@given(programs(), st.data())
def test_renamed_inserted_and_renumbered_at_once(program, data):
    edited = deepcopy(program)
    rename(data.draw, edited)
    insert(data.draw, edited, FOREIGN)
    target = Execution(offset=data.draw(st.integers(0, 3))).step(edited).runs
    assert_survivors_have_partners(target, Execution().step(program).runs)
