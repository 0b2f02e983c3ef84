"""How the frameworks of the two sides of a comparison are related, which decides what can be expected to be equal."""

from enum import Enum, auto

from msprobe.store.record import Dump

_KNOWN = frozenset({"mindspore", "mindtorch", "pytorch"})


class Relation(Enum):
    """The relation between the frameworks of target and golden.

    | | dtypes, rounding of statistics | kernels | names and arguments of calls |
    |---|---|---|---|
    | `SAME` | the same | the same | the same |
    | `UNKNOWN` | not the same | assumed to be the same | the same |
    | `OTHER_KERNELS` | not the same | not the same | the same |
    | `OTHER_NAMES` | not the same | not the same | not the same |

    `UNKNOWN`: two frameworks, of which at least one is not known. `OTHER_KERNELS`: PyTorch and PyTorch's API on
    MindSpore (`mindtorch`), which has MindSpore's kernels and PyTorch's names; or MindSpore and one of these if a dump
    has no forward and backward calls whose counterparts could be searched.
    """

    SAME = auto()
    UNKNOWN = auto()
    OTHER_KERNELS = auto()
    OTHER_NAMES = auto()

    @property
    def is_one_framework(self) -> bool:
        """Return whether the sides are of one framework: dtypes must be equal, and equal statistics show equal bits."""
        return self is Relation.SAME

    @property
    def has_other_kernels(self) -> bool:
        """Return whether the sides are never bitwise equal, so that differences are judged relative to the scale."""
        return self in (Relation.OTHER_KERNELS, Relation.OTHER_NAMES)

    @property
    def has_other_names(self) -> bool:
        """Return whether one side has MindSpore's names, the other PyTorch's, and calls are matched by meaning."""
        return self is Relation.OTHER_NAMES


def relation_of(target: Dump, golden: Dump) -> Relation:
    """Return the relation between the frameworks of two dumps."""
    frameworks = {target.framework, golden.framework}
    if len(frameworks) == 1:
        return Relation.SAME
    if not frameworks <= _KNOWN:
        return Relation.UNKNOWN
    if "mindspore" in frameworks and all(any(name.direction for name in dump.names) for dump in (target, golden)):
        return Relation.OTHER_NAMES
    return Relation.OTHER_KERNELS
