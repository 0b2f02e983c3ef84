"""Time grows with the size of two dumps, not with its square, also where nothing of them has a partner."""

import json
import time

import pytest

from msprobe.base.memory import without_gc
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.store.reader import read

pytestmark = pytest.mark.slow

SIZES = 1500, 6000
MOST = 8.0
"""Times that four times as much may take: 4 where time is linear, 16 where it is quadratic."""

UNRELATED = {"target": "exp", "golden": "tanh"}


def tensor(value, framework, source=""):
    kind, dtype = ("mindspore.Tensor", "Float32") if framework == "mindspore" else ("torch.Tensor", "torch.float32")
    record = {"type": kind, "dtype": dtype, "shape": [2, 2], "Max": value + 1.0, "Min": value - 1.0, "Mean": value}
    return {**record, "Norm": abs(value) + 2.0, **({"from": source} if source else {})}


def call(inputs, outputs, keywords=None):
    return {"input_args": inputs, "input_kwargs": keywords or {}, "output": outputs}


def unmatched_calls(n, side, framework):
    def one(value):
        return call([tensor(value, framework)], [tensor(value + 1.0, framework)])

    return {
        "Mint.relu.0.forward": one(0.0),
        **{f"Mint.{UNRELATED[side]}.{at}.forward": one(at + 1.0) for at in range(n)},
        "Mint.sin.0.forward": one(0.0),
    }


def unmatched_arguments(n, side, framework):
    keywords = {f"{side}{at}": tensor(float(at % 97), framework) for at in range(n)}
    return {"Mint.stack.0.forward": call([tensor(1.0, framework)], [tensor(5.0, framework)], keywords)}


def unmatched_values(n, side, framework):
    kind = "Cell" if framework == "mindspore" else "Module"
    keywords = {f"{side}{at}": {"type": "int", "value": at} for at in range(n)}
    return {f"{kind}.net.Net.forward.0": call([tensor(1.0, framework)], [tensor(5.0, framework)], keywords)}


def one_fan(n, side, framework):
    """A call with n results, all of which differ, and one that takes them all."""
    shift = 3.0 if side == "target" else 0.0
    made = [tensor(at + shift, framework) for at in range(n)]
    taken = [tensor(at + shift, framework, f"call Mint.split.0.forward.output.{at}") for at in range(n)]
    return {
        "Mint.split.0.forward": call([tensor(0.0, framework, "leaf")], made),
        "Mint.cat.0.forward": call([taken], [tensor(5.0 + shift, framework)]),
    }


def other_shapes(n, side, framework):
    """A cell that is given its tensors in another order, as their shapes show."""
    kind = "Cell" if framework == "mindspore" else "Module"
    inputs = [{**tensor(float(at), framework), "shape": [2, 2 + at % 3]} for at in range(n)]
    inputs = inputs[1:] + inputs[:1] if side == "target" else inputs
    return {f"{kind}.net.Net.forward.0": call(inputs, [tensor(5.0, framework)])}


def seconds(make, n, frameworks, folder):
    """CPU time of matching, judging and locating, the better of two; and how many pairs of records there are."""
    dumps = []
    for side, framework in zip(("target", "golden"), frameworks, strict=True):
        place = folder / f"{side}{n}"
        place.mkdir(exist_ok=True)
        head = {"task": "statistics", "level": "mix", "framework": framework, "format_version": 1}
        (place / "dump.json").write_text(json.dumps({**head, "data": make(n, side, framework)}))
        dumps.append(read(place))
    taken = []
    for _ in range(2):
        with without_gc():  # as in the command; else the time depends on what else this process holds
            start = time.process_time()
            comparison = compare(*dumps)
            locate(comparison)
            taken.append(time.process_time() - start)
    return min(taken), len(comparison.grades)


ONE, TWO = ("mindspore", "mindspore"), ("mindspore", "pytorch")
CASES = [
    *((make, TWO) for make in (unmatched_calls, unmatched_arguments, unmatched_values, one_fan, other_shapes)),
    *((make, ONE) for make in (unmatched_calls, one_fan)),
    # within a cell both frameworks' dumps go the same way
    *(
        pytest.param(make, ONE, marks=pytest.mark.verify)
        for make in (unmatched_arguments, unmatched_values, other_shapes)
    ),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("make", "frameworks"), CASES, ids=lambda each: each[-1] if isinstance(each, tuple) else each.__name__
)
def test_time_is_not_quadratic(make, frameworks, tmp_path):
    seconds(make, 10, frameworks, tmp_path)  # what is imported late
    (small, _), (large, pairs) = (seconds(make, n, frameworks, tmp_path) for n in SIZES)
    assert pairs >= SIZES[1]
    assert large < MOST * max(small, 0.1)
