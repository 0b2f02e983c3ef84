"""What is worked out of an object once, and forgotten together with it."""

import gc
from dataclasses import dataclass, field
from weakref import ref

from msprobe.base.memo import cached_by_identity


@dataclass
class Equal:
    """Equal to every other, and not to be hashed, as dumps are."""

    calls: list[int] = field(default_factory=list)


def test_a_function_is_called_once_for_each_object():
    asked = []

    @cached_by_identity
    def number(of):
        """Documented."""
        asked.append(id(of))
        return len(asked)

    first, second = Equal(), Equal()
    assert first == second
    assert [number(first), number(second), number(first), number(second)] == [1, 2, 1, 2]
    assert asked == [id(first), id(second)]
    assert (number.__name__, number.__doc__) == ("number", "Documented.")


def test_a_result_is_forgotten_together_with_its_object_and_nothing_else_holds_it():
    made = []

    @cached_by_identity
    def result(of):
        made.append(None)
        return Equal()

    gc.disable()
    try:
        one = Equal()
        known = ref(result(one))
        assert known() is not None
        del one
        assert known() is None
    finally:
        gc.enable()
    assert [result(Equal()) is not None for _ in range(3)] == [True] * 3
    assert len(made) == 4  # also where a later object has the place in memory of an earlier one
