"""A small transformer run in numpy, told as the dump of MindSpore or of PyTorch: names, steps and parameters differ.

Every call is made with a role ("block 1 query"), which both sides share; calls that the other side does not have get
none. What is found is held against the roles.
"""

import zlib
from dataclasses import dataclass, field, replace

import numpy as np

from msprobe.base.names import api_call, cell_call, counterpart, parse
from msprobe.store.record import Call, Dump, Record, Statistics

WIDTH, INNER, VOCABULARY, BATCH, LENGTH = 6, 10, 11, 2, 5


@dataclass(frozen=True)
class Choices:
    """How one side is written. `order` is that in which q, k and v run; `blocks` names the blocks' weights.

    `wrong` are roles whose weights are others, `swapped` says whose weights a role has been given instead.
    """

    framework: str
    order: str = "qkv"
    blocks: tuple[str, ...] = ("first", "second", "third")
    scrambled: bool = False
    fused: bool = False
    equal: bool = False
    constant: bool = False
    drift: float = 0.0
    wrong: tuple[str, ...] = ()
    swapped: dict[str, str] = field(default_factory=dict)
    level: str = "mix"
    md5: bool = False
    dropout: bool = False
    wrapped: bool = False
    sources: bool = False


@dataclass
class Tape:
    """Writes down what runs."""

    choices: Choices
    calls: list[Call] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    weights: dict[int, np.ndarray] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _results: dict[int, tuple[str, object]] = field(default_factory=dict)  # the object too: its id is then its own

    @property
    def is_ms(self):
        return self.choices.framework == "mindspore"

    def api(self, stem, role, inputs, result, values=()):
        """An API call with its result."""
        if self.choices.level != "L0":
            name = api_call(stem, self._number(stem), "forward")
            self._write(name, role, inputs, {}, result, values)
        return result

    def module(self, path, role, inputs, parameters, body):
        """A module's call around what `body` runs; its class stands last in the path."""
        if self.choices.level == "L1":
            return body()
        stem = f"{'Cell' if self.is_ms else 'Module'}.{self._called(path)}"
        name = cell_call(stem, self._number(stem), "forward")
        self._open.append(name)
        result = body()
        self._open.pop()
        self._write(name, role, inputs, parameters, result)
        return result

    def dump(self):
        """What was written, with a backward call behind for every forward call, and the gradients of parameters."""
        backward = []
        for call in reversed(self.calls):
            back = counterpart(call.name, "backward")
            parent = counterpart(call.parent, "backward") if call.parent else None
            gradients = tuple(self._record(back, "input", ("0",), np.ones(2)) for _ in range(1))
            backward.append(Call(back, gradients, parent))
            self.roles[back] = self.roles[call.name] and f"{self.roles[call.name]} backward"
            if owned := [r for r in call.records if r.part == "parameters"]:
                name = f"{parse(call.name).stem}.parameters_grad"
                rows = tuple(replace(r, part="parameters_grad", name=f"{name}.{r.path[0]}") for r in owned)
                backward.append(Call(name, rows))
                self.roles[name] = f"{self.roles[call.name]} gradients"
        calls = (*self.calls, *backward)
        construct = {call.name: call.parent for call in calls if "parameters_grad" not in call.name}
        return Dump(
            self.choices.framework, "", "statistics", self.choices.level, self.choices.framework, calls, construct
        )

    def _number(self, stem):
        self._numbers[stem] = self._numbers.get(stem, -1) + 1
        return self._numbers[stem]

    def _called(self, path):
        if not self.choices.scrambled:
            return path
        *parts, last = path.split(".")
        kept = last if last in ("Dense", "Linear", "ReLU", "Embedding") else f"c{zlib.crc32(last.encode())}"
        return ".".join([*(p if p.isdigit() else f"n{zlib.crc32(p.encode())}" for p in parts), kept])

    def _write(self, name, role, inputs, parameters, result, values=()):
        records = [self._record(name, "input", (str(n),), value) for n, value in enumerate(inputs)]
        records += [
            Record(f"{name}.input.{n}", "input", (str(n),), "value", "int", value=value)
            for n, value in enumerate(values, len(inputs))
        ]
        records += [self._record(name, "parameters", (key,), value) for key, value in parameters.items()]
        records.append(self._record(name, "output", ("0",), result))
        self._results.setdefault(id(result), (f"call {name}.output.0", result))
        self.calls.append(Call(name, tuple(records), self._open[-1] if self._open else None))
        self.roles[name] = role

    def _record(self, name, part, path, value):
        kind = "mindspore.Tensor" if self.is_ms else "torch.Tensor"
        array = np.asarray(value, np.float64)
        if not self.is_ms and id(value) not in self.weights:
            array = array * (1 + 1e-7)  # kernels of two frameworks round differently
        statistics = Statistics(
            float(array.max()), float(array.min()), float(array.mean()), float(np.linalg.norm(array))
        )
        digest = ""
        if self.choices.md5:
            statistics, digest = None, f"{zlib.crc32(array.tobytes()):08x}"
        row = ".".join((name, part, *path))
        source = self._results.get(id(value), ("",))[0] if self.choices.sources and part == "input" else ""
        return Record(row, part, path, "tensor", kind, "float32", array.shape, statistics, digest=digest, source=source)


def run(choices):
    """The dump of one side, and the role of each of its calls."""
    tape = Tape(choices)
    net = _Net(tape)
    net.run()
    return tape.dump(), tape.roles


class _Net:
    def __init__(self, tape):
        self.tape, self.choices, self.is_ms = tape, tape.choices, tape.is_ms

    def run(self):
        tokens = np.arange(BATCH * LENGTH, dtype=float).reshape(BATCH, LENGTH) % VOCABULARY
        x = self.embedding(tokens)
        for n, label in enumerate(self.choices.blocks):
            x = self.block(x, n, label)
        x = self.dense("head" if self.is_ms else "lm_head", "head", x, VOCABULARY)
        mean, stem = x.mean(), "Functional.mean" if self.is_ms else "Torch.mean"
        self.tape.api(stem, "loss", [x], np.float64(mean))

    def weight(self, role, *shape):
        seed = repr(shape) if self.choices.equal else role
        seed = self.choices.swapped.get(seed, seed)
        if role in self.choices.wrong:
            seed += " wrong"
        if self.choices.constant:
            return np.full(shape, 0.02)
        made = np.random.default_rng(zlib.crc32(seed.encode())).standard_normal(shape)
        return self.tape.weights.setdefault(id(made), made)

    def drifted(self, x):
        return x * (1 + self.choices.drift) + 0.1 * self.choices.drift

    def embedding(self, tokens):
        table = self.weight("embedding", VOCABULARY, WIDTH)
        result = self.drifted(table[tokens.astype(int)])
        flat = result.reshape(-1, WIDTH)

        def body():
            if self.is_ms:
                self.tape.api("Primitive.reshape_flat.Reshape", "", [tokens], tokens.reshape(-1))
                self.tape.api("Primitive.gather.Gather", "", [table, tokens.reshape(-1)], flat)
                return self.tape.api("Primitive.reshape.Reshape", "embed", [flat], result)
            return self.tape.api("Functional.embedding", "embed", [tokens, table], result)

        path = "tokens.Embedding" if self.is_ms else "wte.Embedding"
        name = "embedding_table" if self.is_ms else "weight"
        return self.tape.module(path, "embedding", [tokens], {name: table}, body)

    def dense(self, path, role, x, width):
        weight, bias = self.weight(role, width, x.shape[-1]), self.weight(role + " bias", width)
        product, result = x @ weight.T, self.drifted(x @ weight.T + bias)

        def body():
            if self.is_ms:
                flat = x.reshape(-1, x.shape[-1])
                self.tape.api("Primitive.reshape.Reshape", "", [x], flat)
                self.tape.api("Primitive.matmul.MatMul", "", [flat, weight], product.reshape(-1, width))
                self.tape.api("Primitive.bias_add.BiasAdd", "", [product, bias], result.reshape(-1, width))
                return self.tape.api("Primitive.reshape.Reshape", f"{role} linear", [result.reshape(-1, width)], result)
            return self.tape.api("Functional.linear", f"{role} linear", [x, weight, bias], result)

        kind = "Dense" if self.is_ms else "Linear"
        return self.tape.module(f"{path}.{kind}", role, [x], {"weight": weight, "bias": bias}, body)

    def block(self, x, n, label):
        path = f"blocks.{n}" if self.is_ms else f"h.{n}"

        def body():
            mixed = self.attention(x, f"{path}.{'attention' if self.is_ms else 'attn'}", label)
            y = self.tape.api("Tensor.__add__", f"{label} add", [x, mixed], x + mixed)
            inner = self.dense(f"{path}.up", f"{label} up", y, INNER)
            active = np.maximum(inner, 0)
            stem = "Primitive.relu.ReLU" if self.is_ms else "Functional.relu"
            self.tape.module(
                f"{path}.act.ReLU",
                f"{label} act",
                [inner],
                {},
                lambda: self.tape.api(stem, f"{label} relu", [inner], active),
            )
            back = self.dense(f"{path}.down", f"{label} down", active, WIDTH)
            return self.tape.api("Tensor.__add__", f"{label} second add", [y, back], y + back)

        if self.choices.wrapped:
            whole = body
            body = lambda: self.tape.module(f"{path}.inner.Wrapper", "", [x], {}, whole)  # noqa: E731  # a name to wrap
        return self.tape.module(f"{path}.Block", f"{label} block", [x], {}, body)

    def attention(self, x, path, label):
        names = dict(
            zip("qkv", ("query", "key", "value") if self.is_ms else ("q_proj", "k_proj", "v_proj"), strict=True)
        )

        def body():
            made = {}
            if self.choices.fused:
                made = self.fused(x, path, label)
            for which in "" if self.choices.fused else self.choices.order:
                projected = self.dense(f"{path}.{names[which]}", f"{label} {which}", x, WIDTH)
                made[which] = self.turned(projected, f"{label} {which}")
            q, k, v = made["q"], made["k"], made["v"]
            turned = k.swapaxes(-1, -2)
            stem = "Tensor.swapaxes" if self.is_ms else "Tensor.transpose"
            self.tape.api(stem, f"{label} turn", [k], turned, (-2, -1))
            scores = self.tape.api(
                "Functional.matmul" if self.is_ms else "Torch.matmul", f"{label} scores", [q, turned], q @ turned
            )
            shifted = np.exp(scores - scores.max(-1, keepdims=True))
            weights = shifted / shifted.sum(-1, keepdims=True)
            self.tape.api("Functional.softmax", f"{label} softmax", [scores], weights, (-1,))
            if self.choices.dropout:
                self.tape.api("Functional.dropout", "", [weights], weights)
            mixed = weights @ v
            self.tape.api("Functional.matmul" if self.is_ms else "Torch.matmul", f"{label} mix", [weights, v], mixed)
            flat = mixed.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH)
            self.tape.api("Tensor.reshape" if self.is_ms else "Tensor.view", f"{label} flat", [mixed], flat)
            return self.dense(f"{path}.out", f"{label} out", flat, WIDTH)

        return self.tape.module(f"{path}.Attention", f"{label} attention", [x], {}, body)

    def turned(self, x, role):
        y = x.reshape(BATCH, LENGTH, 2, -1).transpose(0, 2, 1, 3)
        return self.tape.api("Tensor.transpose" if self.is_ms else "Tensor.permute", f"{role} heads", [x], y)

    def fused(self, x, path, label):
        weight = np.concatenate([self.weight(f"{label} {w}", WIDTH, WIDTH) for w in "qkv"])
        bias = np.concatenate([self.weight(f"{label} {w} bias", WIDTH) for w in "qkv"])
        self.tape.weights |= {id(weight): weight, id(bias): bias}
        whole = x @ weight.T + bias

        def body():
            return self.tape.api("Functional.linear", "", [x, weight, bias], whole)

        self.tape.module(f"{path}.qkv.Linear", f"{label} qkv", [x], {"weight": weight, "bias": bias}, body)
        parts = np.split(whole, 3, -1)
        self.tape.api("Torch.split", "", [whole], parts[0])
        return {w: self.turned(part, f"{label} {w}") for w, part in zip("qkv", parts, strict=True)}
