"""Nothing is missing, nothing is there twice: recorded calls against a count that the interpreter makes of a bare run.

The count knows nothing of how the debugger sees calls. Of the same networks, run without it, `sys.setprofile` tells of
every call of a Python function (known by its code) and of a built-in one (known by itself); a call that is made while
another public one runs does not count. Operators call no function that a profile sees, so in the counted copy of
a network's source each is written out: `x + y` as `Tensor.__add__(x, y)`.
"""

import ast
import operator
import sys
from collections import Counter, defaultdict
from inspect import unwrap
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, jit, mint, nn, ops
from mindspore.ops import functional as F
from mindspore.ops import gelu, relu

from msprobe.frameworks.mindspore.executors import api

pytestmark = pytest.mark.mindspore

TRAINING = Path(__file__).parents[2] / "training"
NAMESPACES = {
    "Functional": [ops],
    "Mint": [mint, mint.linalg, mint.special],
    "MintFunctional": [mint.nn.functional],
}

# ---- the network of layers, primitives and early references --------------------------------------------------------

ACT2FN = {"gelu": gelu, "silu": ops.silu}


@jit
def compiled(x):
    return ops.tanh(x) * 2.0


class Layers(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embed, self.dense, self.norm = nn.Embedding(5, 8), nn.Dense(8, 8, activation="relu"), nn.LayerNorm((8,))
        self.linear, self.pool = mint.nn.Linear(8, 8), nn.MaxPool1d(2, stride=2)
        self.act, self.stages = ACT2FN["gelu"], [ops.sin, relu]
        self.mul, self.gather = ops.Mul(), ops.Gather()
        self.scale = Parameter(Tensor(np.linspace(0.5, 1.5, 8, dtype=np.float32)), name="scale")

    def construct(self, ids):
        x = self.act(self.dense(self.embed(ids)))
        for stage in self.stages:
            x = stage(x) + x
        x = self.norm(self.linear(x)) * self.scale - 0.5
        x = F.exp(-relu(compiled(ACT2FN["silu"](self.mul(x, self.scale)))))
        y = ops.matmul(x, x.swapaxes(-1, -2))
        y[0] = y[1] @ y[2]
        y /= 2.0
        z = ops.where(y > 0.1, y, 1 / (y + 1.0))
        return self.gather(self.pool(z), ids[1], 1).sum().reshape((1,))


# ---- the count ---------------------------------------------------------------------------------------------------

BINARY = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.MatMult: "matmul", ast.Pow: "pow"},
    **{ast.FloorDiv: "floordiv", ast.Mod: "mod"},
}
COMPARED = {ast.Gt: "gt", ast.Lt: "lt", ast.GtE: "ge", ast.LtE: "le"}


OPERATORS = {f"__{how}{name}__" for name in BINARY.values() for how in ("", "r", "i")}
OPERATORS |= {f"__{name}__" for name in (*COMPARED.values(), "neg", "getitem", "setitem")}


class WrittenOut(ast.NodeTransformer):
    """Operators become calls of `operate`."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        name = BINARY[type(node.op)]
        return self._call(node, f"__{name}__", f"__r{name}__", node.left, node.right)

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        name = BINARY[type(node.op)]
        read = ast.Name(node.target.id, ast.Load())
        called = self._call(node, f"__i{name}__", f"__r{name}__", read, node.value)
        return ast.copy_location(ast.Assign([node.target], called), node)

    def visit_Compare(self, node):
        self.generic_visit(node)
        if type(node.ops[0]) not in COMPARED:
            return node
        return self._call(node, f"__{COMPARED[type(node.ops[0])]}__", "", node.left, node.comparators[0])

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return self._call(node, "__neg__", "", node.operand) if isinstance(node.op, ast.USub) else node

    def visit_Subscript(self, node):
        self.generic_visit(node)
        is_read = isinstance(node.ctx, ast.Load)
        return self._call(node, "__getitem__", "", node.value, node.slice) if is_read else node

    def visit_Assign(self, node):
        self.generic_visit(node)
        target = node.targets[0]
        if not isinstance(target, ast.Subscript):
            return node
        written = self._call(node, "__setitem__", "", target.value, target.slice, node.value)
        return ast.copy_location(ast.Expr(written), node)

    @staticmethod
    def _call(node, name, reflected, *operands):
        words = [ast.Constant(name), ast.Constant(reflected)]
        return ast.copy_location(ast.Call(ast.Name("operate", ast.Load()), [*words, *operands], []), node)


def operate(name, reflected, *operands):
    """What Python does with an operator, by a call that a profile sees."""
    if isinstance(operands[0], Tensor):
        return getattr(Tensor, name)(*operands)
    if reflected and isinstance(operands[1], Tensor):
        return getattr(Tensor, reflected)(operands[1], operands[0])
    return getattr(operator, name)(*operands)


def written_out(file, monkeypatch, only=None):
    """The module of a file, the operators of its class `only` or of all written out; known to `sys.modules`."""
    tree = ast.parse(Path(file).read_text())
    tree.body = [WrittenOut().visit(part) if only in (None, getattr(part, "name", "")) else part for part in tree.body]
    ast.fix_missing_locations(tree)
    module = ModuleType(Path(file).stem)
    module.__file__, module.operate = str(file), operate
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(tree, str(file), "exec"), vars(module))
    return module


class Count:
    """Counts the outermost public calls of whatever runs inside `with`."""

    def __init__(self, net):
        self.names = Counter()
        self._inside = []
        self._codes, self._builtins = defaultdict(set), {}
        self._functions = defaultdict(set)
        owners = [(p, m, [n for n in vars(m) if not n.startswith("_")]) for p, ms_ in NAMESPACES.items() for m in ms_]
        methods = [n for n in dir(Tensor) if not n.startswith("_") or n in OPERATORS]
        for prefix, owner, public in [*owners, ("Tensor", Tensor, methods)]:
            for name in public:
                function = vars(owner).get(name)
                if isinstance(function, (FunctionType, BuiltinFunctionType)):
                    self._functions[id(function)].add(f"{prefix}.{name}")
                if isinstance(function, FunctionType):
                    self._codes[function.__code__].add(id(function))
                elif isinstance(function, BuiltinFunctionType):
                    self._builtins[id(function)] = function
        self._held = {
            id(primitive): f"Primitive.{attribute}.{type(primitive).__name__}"
            for _, cell in net.cells_and_names()
            for attribute, primitive in cell._primitives.items()
        }
        self._primitives = {
            vars(c)["__call__"].__code__ for p in self._kept(net) for c in type(p).__mro__ if "__call__" in vars(c)
        }

    @staticmethod
    def _kept(net):
        return [p for _, cell in net.cells_and_names() for p in cell._primitives.values()]

    def canonical(self, name):
        """A function's name: the first of all under which the same function is public."""
        return next((min(names) for names in self._functions.values() if name in names), name)

    def __enter__(self):
        sys.setprofile(self._told)
        return self

    def __exit__(self, *exc):
        sys.setprofile(None)

    def _told(self, frame, event, arg):
        if event == "call":
            name = self._public(frame)
            if name:
                self._inside.append((frame, name))
        elif event == "return":
            if self._inside and self._inside[-1][0] is frame:
                _, name = self._inside.pop()
                if not self._inside and (gives_tensors(arg) or name.startswith(("Primitive.", "Jit."))):
                    self.names[name] += 1
        elif event == "c_call":
            owner = getattr(arg, "__self__", None)
            if isinstance(owner, Tensor) and (not arg.__name__.startswith("_") or arg.__name__ in OPERATORS):
                self._inside.append((arg, f"Tensor.{arg.__name__}"))
            elif id(arg) in self._builtins:
                self._inside.append((arg, min(self._functions[id(arg)])))
        elif self._inside and self._inside[-1][0] is arg:  # c_return, c_exception
            _, name = self._inside.pop()
            if not self._inside:
                self.names[name] += 1

    def _public(self, frame):
        code = frame.f_code
        if code in self._codes:
            functions = self._codes[code]
            assert len(functions) == 1, f"{code} is the code of several public functions"
            return min(self._functions[next(iter(functions))])
        if code in self._primitives:
            return self._held.get(id(frame.f_locals[code.co_varnames[0]]))
        if code is unwrap(api._JitExecutor.__call__).__code__:  # whoever else wrapped it
            return f"Jit.{frame.f_locals['self'].fn.__name__}"
        return None


def gives_tensors(value):
    """Whether there is a tensor in a result."""
    return isinstance(value, Tensor) or (isinstance(value, (tuple, list)) and any(map(gives_tensors, value)))


def training(monkeypatch, name):
    monkeypatch.syspath_prepend(str(TRAINING))
    for module in ("parts", "structures"):
        written_out(TRAINING / f"{module}.py", monkeypatch)
    counted = getattr(sys.modules["structures"], name)
    for module in ("parts", "structures"):
        monkeypatch.delitem(sys.modules, module)
    import structures

    rng = np.random.default_rng(2)
    inputs = [Tensor(rng.standard_normal((16, 8)).astype(np.float32)) for _ in range(2)]
    return counted, getattr(structures, name), inputs


def of_layers(monkeypatch):
    counted = written_out(__file__, monkeypatch, "Layers").Layers
    return counted, Layers, [Tensor([[0, 1, 4, 2], [3, 3, 0, 1], [1, 2, 3, 4]], ms.int32)]


# what a forward has by hand, as a check of the count itself
SOME = {
    "Branching": {"Functional.matmul": 3, "Tensor.__add__": 3 + 2 * 2, "Functional.gelu": 2, "Tensor.__sub__": 1},
    "InPlace": {"Tensor.__imul__": 1, "Tensor.__iadd__": 1, "Tensor.__setitem__": 1, "Functional.tanh": 1},
    "Layers": {
        "Primitive.shape_op.Shape": 1,
        "Primitive.matmul.MatMul": 1,
        "Primitive.mul.Mul": 1,
        "Jit.compiled": 1,
        "Tensor.__getitem__": 3,
    },
}


@pytest.mark.parametrize("name", SOME)
def test_the_recorded_calls_are_those_that_the_interpreter_counts(name, collecting, dumped, monkeypatch):
    make = of_layers if name == "Layers" else lambda patch: training(patch, name)
    counted, recorded, inputs = make(monkeypatch)
    bare = counted()
    bare(*inputs)  # what the framework does once only
    with Count(bare) as count:
        bare(*inputs)
    net, debugger = recorded(), collecting(level="mix")
    debugger.start(net)
    net(*inputs)
    debugger.stop()
    debugger.step()
    stems = (n.rsplit(".", 2)[0] for n in dumped(debugger).data if not n.startswith("Cell."))
    seen = Counter(map(count.canonical, stems))
    assert seen == count.names
    for stem, number in SOME[name].items():
        assert count.names[count.canonical(stem)] == number, f"the count by hand of {stem}"
