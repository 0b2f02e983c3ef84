"""Seeds, determinism and dropout on real MindSpore, in processes of their own: nothing of it reaches another test."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from preloaded import python

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(find_spec("mindspore") is None, reason="what is seeded is MindSpore; it is not installed"),
]

DRAW = """
import json, os, random
import numpy as np
import mindspore as ms
from mindspore import mint, nn, ops
from msprobe.frameworks.mindspore.seed import seed_all

def draw():
    return {
        "random": random.random(),
        "numpy": np.random.rand(2).tolist(),
        "operator": ops.rand(3).asnumpy().tolist(),
        "second operator": ops.standard_normal((3,)).asnumpy().tolist(),
        "initializer": nn.Dense(2, 2).weight.asnumpy().tolist(),
        "mint initializer": mint.nn.Linear(2, 2).weight.asnumpy().tolist(),
        "dropout": nn.Dropout(p=0.5).set_train()(ops.ones((64,))).asnumpy().tolist(),
        "generator": ms.initial_seed(),
        "data set": ms.dataset.config.get_seed(),
    }
"""

DROPOUT = """
import json
import numpy as np
import mindspore as ms
from mindspore import mint, nn, ops
from msprobe.frameworks.mindspore.seed import restore_dropout, seed_all

x = ms.Tensor(np.random.default_rng(0).uniform(1, 2, (4, 3, 5, 6)).astype(np.float32))
deep = ms.Tensor(np.random.default_rng(0).uniform(1, 2, (4, 3, 5, 6, 2)).astype(np.float32))

class Inside(nn.Cell):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(p=0.5)

    @ms.jit
    def construct(self, x):
        return ops.dropout(self.drop(x), 0.5)

CASES = {
    "nn.Dropout": lambda: (x, nn.Dropout(p=0.5).set_train()(x)),
    "nn.Dropout1d": lambda: (x[0], nn.Dropout1d(p=0.5).set_train()(x[0])),
    "nn.Dropout2d": lambda: (x, nn.Dropout2d(p=0.5).set_train()(x)),
    "nn.Dropout3d": lambda: (deep, nn.Dropout3d(p=0.5).set_train()(deep)),
    "ops.Dropout": lambda: (x, ops.Dropout(0.5)(x)[0]),
    "ops.Dropout by keyword": lambda: (x, ops.Dropout(keep_prob=0.5, Seed0=1, Seed1=2)(x)[0]),
    "ops.operations.Dropout": lambda: (x, ops.operations.Dropout(0.5)(x)[0]),
    "ops.Dropout2D": lambda: (x, ops.Dropout2D(0.5)(x)[0]),
    "ops.Dropout3D": lambda: (deep, ops.Dropout3D(keep_prob=0.5)(deep)[0]),
    "ops.dropout": lambda: (x, ops.dropout(x, 0.5)),
    "ops.dropout2d": lambda: (x, ops.dropout2d(x, 0.5)),
    "ops.dropout3d": lambda: (deep, ops.dropout3d(deep, 0.5)),
    "inside a graph": lambda: (x, Inside().set_train()(x)),
}
# Without a kernel on the CPU: only what passes values through can run.
ASCEND_CASES = {
    "mint.nn.Dropout": lambda: (x, mint.nn.Dropout(0.5).set_train()(x)),
    "mint.nn.Dropout by keyword": lambda: (x, mint.nn.Dropout(p=0.5, inplace=False).set_train()(x)),
    "mint.nn.Dropout2d": lambda: (x, mint.nn.Dropout2d(p=0.5).set_train()(x)),
    "mint.nn.functional.dropout": lambda: (x, mint.nn.functional.dropout(x, 0.5)),
    "mint.nn.functional.dropout by keyword": lambda: (x, mint.nn.functional.dropout(x, p=0.5, training=True)),
    "mint.nn.functional.dropout2d": lambda: (x, mint.nn.functional.dropout2d(x, 0.5)),
}

def passes(cases):
    return {name: all(bool((a == b).all()) for a, b in [case()]) for name, case in cases.items()}
"""


def run(script, tmp_path, program=None, **environment):
    """The JSON that a script prints last, run in a process of its own; from a file, as the graph compiler wants it."""
    path = tmp_path / "script.py"
    path.write_text(script)
    done = subprocess.run(
        [program or python("mindspore"), str(path)],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_same_seed_gives_the_same_numbers(tmp_path):
    script = DRAW + (
        "drawn = []\n"
        "for seed in (7, 7, 8):\n"
        "    seed_all(seed, mode=None, rm_dropout=False)\n"
        "    drawn.append(draw())\n"
        "print(json.dumps([drawn, os.environ['PYTHONHASHSEED']]))\n"
    )
    (first, again, other), hash_seed = run(script, tmp_path)
    assert first == again
    assert [source for source in first if first[source] == other[source]] == []
    assert 0.0 in first["dropout"], "rm_dropout=False leaves dropout alone"
    assert (first["generator"], first["data set"]) == (7, 7)
    assert hash_seed == "8"
    (in_another_process, _, _), _ = run(script, tmp_path)
    assert in_another_process == first


def test_the_largest_seed_is_taken(tmp_path):
    assert run(DRAW + "seed_all(2**32 - 1)\nprint(json.dumps(ms.get_seed()))\n", tmp_path) == 2**32 - 1


def test_mode_switches_deterministic_operators_and_none_leaves_them(tmp_path):
    script = DRAW + (
        "seen = []\n"
        "for mode in (None, True, None, True, False, None):\n"
        "    seed_all(1, mode=mode, rm_dropout=False)\n"
        "    seen.append([ms.get_context('deterministic'), os.environ.get('HCCL_DETERMINISTIC')])\n"
        "print(json.dumps(seen))\n"
    )
    assert run(script, tmp_path, HCCL_DETERMINISTIC="strict") == [
        ["OFF", "strict"],
        ["ON", "True"],
        ["ON", "True"],
        ["ON", "True"],
        ["OFF", "False"],
        ["OFF", "False"],
    ]


def test_dropout_passes_values_through_until_it_is_restored(tmp_path):
    script = DROPOUT + (
        "originals = [ops.Dropout, ops.operations.Dropout, ops.operations.nn_ops.Dropout2D, mint.nn.Dropout]\n"
        "originals += [mint.nn.functional.dropout, mint.nn.functional.dropout2d, mint.nn.Dropout2d, ops.Dropout3D]\n"
        "def now():\n"
        "    found = [ops.Dropout, ops.operations.Dropout, ops.operations.nn_ops.Dropout2D, mint.nn.Dropout]\n"
        "    found += [mint.nn.functional.dropout, mint.nn.functional.dropout2d, mint.nn.Dropout2d, ops.Dropout3D]\n"
        "    return [a is b for a, b in zip(found, originals)]\n"
        "before = passes(CASES)\n"
        "seed_all()\n"
        "seed_all()\n"
        "during = {**passes(CASES), **passes(ASCEND_CASES)}\n"
        "replaced = now()\n"
        "names = [ops.Dropout.__name__, ops.Dropout(0.5).name, ops.Dropout2D().name, mint.nn.Dropout.__name__]\n"
        "restore_dropout()\n"
        "restored = now()\n"
        "restore_dropout()\n"
        "print(json.dumps([before, during, passes(CASES), replaced, restored, names]))\n"
    )
    before, during, after, replaced, restored, names = run(script, tmp_path)
    assert set(before.values()) == {False}
    assert [name for name, passed in during.items() if not passed] == []
    assert len(during) == 19
    assert set(after.values()) == {False}
    assert set(replaced) == {False}
    assert set(restored) == {True}
    assert names == ["Dropout", "Dropout", "Dropout2D", "DropoutExt"], "kernels are found by these names"


def test_a_layer_that_exists_stays_as_it_is_and_one_made_in_between_keeps_dropping_nothing(tmp_path):
    script = DROPOUT + (
        "passes = lambda layer: bool((layer.set_train()(x) == x).all())\n"
        "before = nn.Dropout(p=0.5)\n"
        "seed_all(1, mode=None, rm_dropout=True)\n"
        "between = nn.Dropout(p=0.5)\n"
        "seed_all(2, mode=None, rm_dropout=False)\n"
        "later = nn.Dropout(p=0.5)\n"
        "during = [passes(before), passes(between), passes(later)]\n"
        "restore_dropout()\n"
        "print(json.dumps([during, passes(between), passes(nn.Dropout(p=0.5))]))\n"
    )
    # rm_dropout=False removes nothing, and gives nothing back
    assert run(script, tmp_path) == [[False, True, True], True, False]


def test_importing_the_module_imports_no_framework_and_seeds_nothing(tmp_path):
    script = (
        "import json, random, sys\n"
        "random.seed(1)\n"
        "state = random.getstate()\n"
        "import msprobe.frameworks.mindspore.seed\n"
        "print(json.dumps(['mindspore' in sys.modules, random.getstate() == state]))\n"
    )
    assert run(script, tmp_path, program=sys.executable) == [False, True]
