"""Who is whose partner so far: the state of a match, and what lies between the pairs that it has."""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator

from .align import Indices, align, longest_chain
from .keys import Side, identity

Key = Callable[[Side, int], Hashable]


class Pairing:
    """Partners of two sides' calls; `chain` holds the pairs in which both rise, and so the gaps between them.

    Parameter gradients take no part in the gaps: their place in a dump says little.
    """

    def __init__(self, target: Side, golden: Side) -> None:
        self.target, self.golden = target, golden
        self.golden_of = [-1] * len(target)
        self.target_of = [-1] * len(golden)
        self._in_order = ([is_in_order(c.name) for c in target.calls], [is_in_order(c.name) for c in golden.calls])
        self.chain: Indices = []

    def join(self, pairs: Indices) -> None:
        """Take pairs that lie in gaps."""
        for i, j in pairs:
            self.join_anywhere(i, j)
        self.chain = sorted(self.chain + pairs) if self.chain else list(pairs)

    def join_anywhere(self, i: int, j: int) -> None:
        """Take a pair that may cross others; `rechain` afterwards if gaps are wanted again."""
        self.golden_of[i], self.target_of[j] = j, i

    def part(self, i: int) -> None:
        """Undo the pair of target call i, if it has one."""
        if (j := self.golden_of[i]) >= 0:
            self.golden_of[i] = self.target_of[j] = -1

    def rechain(self, without: Container[int] = ()) -> None:
        """Choose the chain anew, as long as possible, from all pairs but those of some target calls."""
        in_order = self._in_order[0]
        pairs = [(i, j) for i, j in enumerate(self.golden_of) if j >= 0 and in_order[i] and i not in without]
        self.chain = longest_chain(pairs)

    def is_open(self) -> bool:
        """Whether both sides still have calls without a partner whose order means something."""
        in_target, in_golden = self._in_order
        return any(j < 0 and ok for j, ok in zip(self.golden_of, in_target, strict=True)) and any(
            i < 0 and ok for i, ok in zip(self.target_of, in_golden, strict=True)
        )

    def free(self) -> tuple[list[int], list[int]]:
        """Every call without a partner, of both sides."""
        return [i for i, j in enumerate(self.golden_of) if j < 0], [j for j, i in enumerate(self.target_of) if i < 0]

    def gaps(self) -> Iterator[tuple[list[int], list[int]]]:
        """The calls without a partner between neighbours of the chain, where both sides have some."""
        in_target, in_golden = self._in_order
        x = y = 0
        for a, b in (*self.chain, (len(self.target), len(self.golden))):
            if a > x and b > y:
                left = [i for i in range(x, a) if self.golden_of[i] < 0 and in_target[i]]
                right = [j for j in range(y, b) if self.target_of[j] < 0 and in_golden[j]]
                if left and right:
                    yield left, right
            x, y = a + 1, b + 1

    def fill(self, key: Key, *, only_if_as_many: bool = False) -> Indices:
        """Align what lies in the gaps by a key; returns the new pairs.

        With `only_if_as_many` a key pairs nothing in a gap where one side has it more often than the other: nobody can
        say which is the one too many.
        """
        found: Indices = []
        for left, right in self.gaps():
            left_keys = [key(self.target, i) for i in left]
            right_keys = [key(self.golden, j) for j in right]
            if only_if_as_many:
                left, left_keys, right, right_keys = _as_many(left, left_keys, right, right_keys)
            found += [(left[a], right[b]) for a, b in align(left_keys, right_keys)]
        self.join(found)
        return found

    def fill_by_name(self) -> None:
        """Pair by name the gaps in which both sides have the same names throughout.

        Not where an alignment by `look` needs no more changes: there as many calls were put in as were taken out, which
        the numbers hide. A call without a partner is one change, a pair that does not look alike another, and two
        where the cells around it differ too.
        """
        found: Indices = []
        for left, right in self.gaps():
            if [identity(self.target.calls[i].name) for i in left] != [
                identity(self.golden.calls[j].name) for j in right
            ]:
                continue
            looks = [self.target.look(i) for i in left], [self.golden.look(j) for j in right]
            places = [self.target.place(i) for i in left], [self.golden.place(j) for j in right]
            changed = sum(a != b for both in (looks, places) for a, b in zip(*both, strict=True))
            if changed < 2 * (len(left) - len(align(*looks))):
                found += zip(left, right, strict=True)
        self.join(found)

    def fill_by_alignment(self) -> None:
        """Align what lies in the gaps, from the strictest key to the name alone."""
        self.fill(Side.look)
        self.fill(Side.form)
        self.fill(Side.place, only_if_as_many=True)
        self.fill(Side.named)


def is_in_order(name: str) -> bool:
    """Whether a call's place in the dump says when it ran."""
    return ".parameters_grad" not in name


def _as_many(
    left: list[int], left_keys: list[Hashable], right: list[int], right_keys: list[Hashable]
) -> tuple[list[int], list[Hashable], list[int], list[Hashable]]:
    in_left, in_right = Counter(left_keys), Counter(right_keys)
    stay_left = [a for a, key in enumerate(left_keys) if in_left[key] == in_right[key]]
    stay_right = [b for b, key in enumerate(right_keys) if in_left[key] == in_right[key]]
    return (
        [left[a] for a in stay_left],
        [left_keys[a] for a in stay_left],
        [right[b] for b in stay_right],
        [right_keys[b] for b in stay_right],
    )
