"""Two programs of one framework that are written differently, by statistics: layers that are fused on one side, masks
of another form, and what unrecorded code makes of both.

The network: layers of a norm, a projection to q, k and v (three cells or one), attention that is not recorded except
for its output projection, and the gradients. The target rounds in another way than the golden.
"""

import numpy as np
import pytest

from msprobe.compare.core.noise import State
from msprobe.compare.locate.find import locate
from msprobe.compare.match.dumps import match
from msprobe.compare.run import compare
from msprobe.findings.catalogue import comparison as kinds

GENERATOR = np.random.default_rng(31)
WIDTH, TOKENS = 16, 12
X, UP = GENERATOR.normal(size=(TOKENS, WIDTH)), GENERATOR.normal(size=(TOKENS, WIDTH))
LAYERS = [{name: GENERATOR.normal(size=(WIDTH, WIDTH)) / 4 for name in "qkvo"} for _ in range(2)]
MASK = np.triu(np.full((TOKENS, TOKENS), -1e4), 1)


class Network:
    """One side. `error` is the relative size of its rounding, `wrong` the layer whose scores have another scale,
    `repeats` the layer that computes the key twice, and no value. `unrecorded` is the relative size of what the
    operations of the second layer are off that are not recorded."""

    def __init__(
        self,
        build,
        tensor,
        *,
        is_fused=False,
        error=0.0,
        wrong=-1,
        mask=MASK,
        lowest=None,
        repeats=-1,
        unrecorded=0.0,
    ):
        self.build, self._tensor, self._error, self._is_fused = build, tensor, error, is_fused
        self._unrecorded = unrecorded
        build.level, self._draws = "L0", np.random.default_rng(5)
        build.extra["format_version"] = 1
        self._mask = mask if lowest is None else np.where(mask < 0, lowest, 0.0)
        self._wrong, self._repeats = wrong, repeats

    def tensor(self, array, source="", error=None):
        error = self._error if error is None else error
        drift = self._draws.choice([-1.0, 1.0], array.shape) * error
        return self._tensor((array * (1 + drift)).astype(np.float32), source)

    def received(self, array, source):
        """What a layer receives: the run's input, or what code made of the layer before."""
        return self.exact(array, source) if source == "leaf" else self.tensor(array, source)

    def exact(self, array, source=""):
        return self._tensor(array.astype(np.float32), source)

    def run(self):
        x, source, places = X, "leaf", []
        for number, weights in enumerate(LAYERS):
            places.append(self.layer(number, weights, x, source))
            x, source = x + places[-1][1], "code"
        gradient = UP
        for number, weights in reversed(list(enumerate(LAYERS))):
            gradient = self.backward(number, weights, *places[number], gradient)
        return self.build.dump()

    def layer(self, number, weights, x, source):
        call, path = self.build.call, f"Cell.layers.{number}"
        around, attention = f"{path}.Layer.forward.0", f"{path}.attn.Attention.forward.0"
        h = x / np.sqrt((x * x).mean(-1, keepdims=True))
        norm = f"{path}.norm.Norm.forward.0"
        call(norm, [self.received(x, source)], [self.tensor(h)], parent=around)
        given = f"call {norm}.output.0"
        order = "qkk" if number == self._repeats else "qkv"
        q, k, v = (h @ weights[name].T for name in order)
        for name, weight, result in self.projections(weights, (q, k, v), order):
            again = f"{path}.attn.{name}.Dense.forward.0" in self.build.data
            call(
                f"{path}.attn.{name}.Dense.forward.{int(again)}",
                [self.tensor(h, given)],
                [self.tensor(result)],
                parameters={"weight": self.exact(weight)},
                parent=attention,
            )
        scores = q @ k.T / 4 * (1.05 if number == self._wrong else 1.0) + self._mask
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        context = shares / shares.sum(-1, keepdims=True) @ v
        exact = context
        context = exact * (1 + self._draws.choice([-1.0, 1.0], context.shape) * self._unrecorded * number)
        out = context @ weights["o"].T
        call(
            f"{path}.attn.o.Dense.forward.0",
            [self.tensor(context, "code")],
            [self.tensor(out)],
            parameters={"weight": self.exact(weights["o"])},
            parent=attention,
        )
        call(attention, [self.tensor(h, given), self.exact(self._mask, "code")], [self.tensor(out)], parent=around)
        call(around, [self.received(x, source)], [self.tensor(x + out)])
        return h, out, exact

    def projections(self, weights, results, order):
        if self._is_fused:
            yield "qkv", np.concatenate([weights[name] for name in "qkv"]), np.concatenate(results, -1)
        else:
            yield from zip(order, (weights[name] for name in order), results, strict=True)

    def backward(self, number, weights, h, out, context, gradient):
        call, path = self.build.call, f"Cell.layers.{number}"
        around, attention = f"{path}.Layer.backward.0", f"{path}.attn.Attention.backward.0"
        self.build.gradients(f"{path}.attn.o.Dense.parameters_grad", weight=self.tensor(gradient.T @ context))
        inner = gradient @ weights["o"]
        call(f"{path}.attn.o.Dense.backward.0", [self.tensor(gradient)], [self.tensor(inner)], parent=attention)
        parts = [np.tanh(inner), inner * 0.5, inner]
        sums = sum(part @ weights[name] for part, name in zip(parts, "qkv", strict=True))
        if self._is_fused:
            found = [("qkv", np.concatenate(parts, -1), sums)]
        else:
            found = [(n, p, p @ weights[n]) for n, p in reversed(list(zip("qkv", parts, strict=True)))]
        for name, part, result in found:
            stem = f"{path}.attn.{name}.Dense"
            self.build.gradients(f"{stem}.parameters_grad", weight=self.tensor(part.T @ h))
            call(f"{stem}.backward.0", [self.tensor(part)], [self.tensor(result)], parent=attention)
        call(attention, [self.tensor(gradient)], [self.tensor(sums)], parent=around)
        self.build.gradients(f"{path}.norm.Norm.parameters_grad", weight=self.tensor((sums * h).sum(0)))
        # The sum of three results rounds more than each.
        call(f"{path}.norm.Norm.backward.0", [self.tensor(sums, error=5 * self._error)], [self.tensor(sums)])
        self.build.construct[f"{path}.norm.Norm.backward.0"] = around
        call(around, [self.tensor(gradient)], [self.tensor(sums + gradient)])
        return sums + gradient


@pytest.fixture
def compared(builder, tensor):
    """`compared(target={...}, golden={...})`: the comparison and what is located."""

    def make(target, golden=None):
        sides = Network(builder("target"), tensor, **target), Network(builder("golden"), tensor, **(golden or {}))
        comparison = compare(*(side.run() for side in sides))
        return comparison, locate(comparison)

    return make


def states_of(comparison, record):
    rows = (row for row in range(len(comparison.pairs.target_rows)) if comparison.pairs.pair(row).record.name == record)
    return [State(comparison.noise.states[row]) for row in rows]


@pytest.mark.parametrize("is_fused", [True, False])
def test_a_fused_layer_without_consequence_is_no_finding(compared, is_fused):
    comparison, located = compared({"is_fused": is_fused, "error": 1e-7}, {"is_fused": not is_fused})
    assert located.findings == ()
    assert all(comparison.counts[grade] == 0 for grade in ("warning", "error"))


@pytest.mark.parametrize("is_fused", [True, False])
def test_an_error_behind_a_fused_layer_is_found(compared, is_fused):
    _, located = compared({"is_fused": is_fused, "error": 1e-7, "wrong": 1}, {"is_fused": not is_fused})
    assert located.first.kind is kinds.CODE
    assert located.first.name == "Cell.layers.1.attn.o.Dense.forward.0"


def test_a_call_in_place_of_another_is_found_by_what_unrecorded_code_makes_of_it(compared):
    _, located = compared({"error": 1e-7, "repeats": 1})
    assert located.first.kind is kinds.STRUCTURE
    assert located.first.name == "Cell.layers.1.attn.k.Dense.forward.1"


@pytest.mark.parametrize("unrecorded", [6.4e-6, 6.8e-6])
def test_what_only_its_size_speaks_against_is_rounding_while_all_is_within_tolerance(compared, unrecorded):
    """R1: code that was not recorded rounds more than one call, and nothing after it differs by more than tolerance."""
    comparison, located = compared({"error": 1e-7, "unrecorded": unrecorded})
    assert (comparison.is_clean, located.findings) == (True, ())
    found = states_of(comparison, "Cell.layers.1.attn.o.Dense.forward.0.input.0")
    assert found == [State.NOISE]
    assert comparison.noise.rounding_left.largest > 0


@pytest.mark.parametrize("unrecorded", [4e-7, 1e-6])
def test_code_that_was_not_recorded_may_round_where_all_before_is_equal_to_the_bit(compared, unrecorded):
    """Another kernel of a function between two cells, as for attention in evaluation."""
    comparison, located = compared({"unrecorded": unrecorded})
    assert (comparison.is_clean, located.findings) == (True, ())


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_mask_in_another_form_is_not_the_cause_of_an_error_beside_it(compared, wrong):
    comparison, located = compared({"error": 1e-7, "wrong": wrong, "lowest": -65504.0})
    assert located.first.kind is kinds.CODE
    assert located.first.name == f"Cell.layers.{wrong}.attn.o.Dense.forward.0"
    assert not comparison.is_clean


def test_a_mask_that_hides_other_elements_is_the_cause(compared):
    _, located = compared({"error": 1e-7, "mask": np.triu(np.full((TOKENS, TOKENS), -65504.0))})
    assert located.first.name == "Cell.layers.0.attn.Attention.forward.0"
    assert located.first.evidence.difference.place == "input.1"


def test_what_grows_beyond_tolerance_is_no_rounding_where_it_began(compared):
    _, located = compared({"error": 1e-7, "unrecorded": 1e-4})
    assert located.first.kind is kinds.CODE
    assert located.first.name == "Cell.layers.1.attn.o.Dense.forward.0"


@pytest.mark.parametrize(("rows", "is_pair"), [(3 * WIDTH, False), (WIDTH, True)])
def test_layers_of_other_names_are_a_pair_if_their_parameters_have_the_same_shapes(builder, tensor, rows, is_pair):
    def side(name, layer, rows):
        net = Network(builder(name), tensor)
        for path, rows_of in (("in", WIDTH), (layer, rows), ("out", WIDTH)):
            weights = {"weight": net.exact(np.ones((rows_of, WIDTH)))}
            results = [net.exact(np.ones((TOKENS, rows_of)))]
            net.build.call(f"Cell.{path}.Dense.forward.0", [net.exact(X, "code")], results, parameters=weights)
        for path, rows_of in (("out", WIDTH), (layer, rows), ("in", WIDTH)):
            net.build.call(f"Cell.{path}.Dense.backward.0", [net.exact(np.ones((TOKENS, rows_of)))], [net.exact(X)])
        return net.build.dump()

    pairs = match(side("target", "qkv", rows), side("golden", "q", WIDTH))
    found = [pair.golden is not None for pair in pairs if pair.target and ".qkv." in pair.target.name]
    assert found == [is_pair, is_pair]


def test_a_mask_without_effect_in_one_layer_is_not_the_cause_in_the_next(compared):
    comparison, located = compared({"error": 1e-7, "wrong": 1, "lowest": -3e4})
    assert located.first.kind is kinds.CODE
    assert located.first.name == "Cell.layers.1.attn.o.Dense.forward.0"
    for number in (0, 1):
        assert states_of(comparison, f"Cell.layers.{number}.attn.Attention.forward.0.input.1") == [State.HARMLESS]


def test_a_mask_without_effect_is_harmless_where_all_else_is_equal_to_the_bit(compared):
    comparison, located = compared({"lowest": -3e4})
    assert located.findings == ()
    assert [finding.name for finding in located.harmless] == [
        f"Cell.layers.{number}.attn.Attention.forward.0" for number in (0, 1)
    ]
    assert comparison.is_clean
    _, located = compared({"lowest": -3e4, "wrong": 1})
    assert located.first.name == "Cell.layers.1.attn.o.Dense.forward.0"


def test_a_mask_that_has_an_effect_in_the_first_layer_is_the_cause(compared):
    other = np.where(np.tri(TOKENS, k=-3), -1e4, MASK)
    _, located = compared({"error": 1e-7, "mask": other})
    assert located.first.kind is kinds.CODE
    assert located.first.name == "Cell.layers.0.attn.Attention.forward.0"
    assert located.first.evidence.difference.place == "input.1"


def test_a_difference_counts_that_only_a_parameters_gradient_carries(builder, tensor):
    """The norm receives another gradient; what it returns reaches nothing, except for the gradient of its weight."""

    def side(name, wrong, error):
        net = Network(builder(name), tensor, error=error)
        stem = "Cell.layers.0.norm.Norm"
        net.build.call(f"{stem}.forward.0", [net.exact(X, "leaf")], [net.tensor(X * 2)])
        net.build.call("Cell.head.Head.forward.0", [net.tensor(X * 2, "code")], [net.tensor(X * 3)])
        net.build.call("Cell.head.Head.backward.0", [net.tensor(UP)], [net.tensor(UP * 3)])
        found = UP * 3 * (1 + wrong * np.sign(X))
        net.build.gradients(f"{stem}.parameters_grad", weight=net.tensor((found * X).sum(0)))
        net.build.call(f"{stem}.backward.0", [net.tensor(found)], [net.tensor(found)])
        return net.build.dump()

    located = locate(compare(side("target", 0.05, 1e-7), side("golden", 0.0, 0.0)))
    assert located.first.name == "Cell.layers.0.norm.Norm.backward.0"
    assert located.first.evidence.difference.place == "input.0"


def test_the_norm_of_a_product_moves_with_its_rows(builder, tensor):
    """Each row of the gradient of a weight has an error in common, where what the layer received has a mean."""

    def side(name, share):
        net = Network(builder(name), tensor, error=2e-7 if share else 0.0)
        given, gradient = 1 + 0.1 * X[:, :1].repeat(512, 1), UP
        stem = "Cell.layer.Dense"
        net.build.call(f"{stem}.forward.0", [net.exact(given, "leaf")], [net.tensor(UP)])
        product = gradient.T @ given
        net.build.gradients(f"{stem}.parameters_grad", weight=net.tensor(product * (1 + share)))
        net.build.call(f"{stem}.backward.0", [net.tensor(gradient)], [None])
        return net.build.dump()

    assert locate(compare(side("target", 2e-7), side("golden", 0.0))).findings == ()
    (found,) = locate(compare(side("wrong", 1e-3), side("golden2", 0.0))).findings
    assert found.name == "Cell.layer.Dense.backward.0"
    assert found.evidence.difference.place == "parameters_grad.weight"


def test_calls_that_take_what_one_side_computes_are_no_pair(builder, tensor, value):
    """One side reshapes q, the other q, k and v; what both compute of it is compared."""
    q, k, v = (GENERATOR.normal(size=(4, 6)) for _ in "qkv")

    def side(name, is_fused):
        build, cell = builder(name), "Cell.attn.Attention.forward.0"
        build.extra["format_version"] = 1

        def call(stem, given, result, *more, parent=cell):
            inputs = [tensor(array.astype(np.float32), source) for array, source in given]
            outputs = [tensor(one.astype(np.float32)) for one in (result if isinstance(result, list) else [result])]
            build.call(f"{stem}.forward", [*inputs, *map(value, more)], outputs, parent=parent)
            return f"call {stem}.forward.output.0"

        def layer(path, number, result):
            around = f"Cell.attn.{path}.Dense.forward.0"
            made = call(f"Functional.linear.{number}", [(X, "leaf")], result, parent=around)
            weights = {"weight": tensor(np.ones((result.shape[1], WIDTH), np.float32))}
            inputs, outputs = [tensor(X.astype(np.float32), "leaf")], [tensor(result.astype(np.float32), made)]
            build.call(around, inputs, outputs, parameters=weights, parent=cell)
            return made

        if is_fused:
            whole = np.concatenate([q, k, v], -1)
            made = layer("qkv", 0, whole)
            cut = np.stack([q, k, v]).reshape(3, 4, 6)
            made = call("Tensor.reshape.0", [(whole, made)], cut, 3, 4, 6)
            made = call("Tensor.unbind.0", [(cut, made)], [q, k, v])
            sources = [made[:-1] + str(n) for n in range(3)]
        else:
            sources = []
            for n, part in enumerate((q, k, v)):
                made = layer("qkv"[n], n, part)
                sources.append(call(f"Tensor.reshape.{n}", [(part, made)], part, 4, 6))
        call("Functional.tanh.0", [(q, sources[0])], np.tanh(q))
        return build.dump()

    pairs = match(side("target", False), side("golden", True))
    partners = {pair.target.name: pair.golden and pair.golden.name for pair in pairs if pair.target}
    assert partners["Tensor.reshape.0.forward"] is None
    assert partners["Functional.tanh.0.forward"] == "Functional.tanh.0.forward"


def test_a_value_that_nothing_takes_is_not_the_cause_of_what_another_weight_explains(builder, tensor):
    """One side returns no scores, which no call takes. The weight of the next layer differs, inside which both sides
    multiply by other functions, and the call that both have receives the difference before the layer itself ends."""

    def written(side, factor):
        made = builder(side, mode="tensor", level="mix")
        weight = LAYERS[0]["q"] * factor
        attention, layer = "Cell.attention.Attention.forward.0", "Cell.head.Dense.forward.0"
        result = np.sin(X)
        product = result @ weight
        sine, scores = tensor(result, "call Mint.sin.0.forward.output.0"), tensor(np.cos(X), "code")
        made.call("Mint.sin.0.forward", [tensor(X, "leaf")], [result], parent=attention)
        made.call(attention, [tensor(X, "leaf")], [sine, None if side == "target" else scores])
        multiplies = {"target": "Mint.matmul.0.forward", "golden": "Mint.einsum.0.forward"}[side]
        made.call(multiplies, [sine, tensor(weight, "parameter head.weight")], [product], parent=layer)
        made.call("Mint.reshape.0.forward", [tensor(product, f"call {multiplies}.output.0")], [product], parent=layer)
        made.call(
            layer, [sine], [tensor(product, "call Mint.reshape.0.forward.output.0")], parameters={"weight": weight}
        )
        return made.dump()

    found = {one.name: one.kind for one in locate(compare(written("target", 1.5), written("golden", 1.0))).findings}
    assert found.pop("Cell.head.Dense.forward.0") is kinds.PARAMETERS
    assert "Cell.attention.Attention.forward.0" not in found


def test_a_value_that_nothing_takes_is_not_the_cause_of_what_code_elsewhere_computes(builder, tensor, value):
    """One side returns no scores inside the encoder. Later, at the root, the sides assign different items, and what
    follows has its input from code that was not recorded, which does not see the scores. The sides also round
    differently."""

    def written(side, item):
        made = builder(side, mode="statistics", level="mix")
        encoder, attention = "Cell.encoder.Encoder.forward.0", "Cell.encoder.attention.Attention.forward.0"
        error = 1e-7 * np.cos(9 * X) if side == "target" else 0.0
        result, tokens = np.sin(X) * (1 + error), np.array([item, 5, 7], np.int64)
        sine, scores = tensor(result, "call Mint.sin.0.forward.output.0"), tensor(np.cos(X), "code")
        made.call("Mint.sin.0.forward", [tensor(X, "leaf")], [result], parent=attention)
        outputs = [sine, None if side == "target" else scores]
        made.call(attention, [tensor(X, "leaf")], outputs, parent=encoder)
        made.call(encoder, [tensor(X, "leaf")], [sine])
        empty = tensor(np.array([9, 5, 7], np.int64), "leaf", dtype="Int64")
        made.call("Tensor.__setitem__.0.forward", [empty, value(0), value(item)], [None])
        given = tensor(tokens, "code", dtype="Int64")
        made.call("Tensor.view.0.forward", [given, value(-1)], [tensor(tokens, dtype="Int64")])
        made.call(
            "Functional.embedding.0.forward",
            [tensor(tokens, "call Tensor.view.0.forward.output.0", dtype="Int64"), tensor(X, "parameter embedding")],
            [X[tokens]],
        )
        return made.dump()

    found = locate(compare(written("target", 1), written("golden", 0))).findings
    assert (found[0].name, found[0].kind) == ("Tensor.__setitem__.0.forward", kinds.ARGUMENT)
    assert "Cell.encoder.attention.Attention.forward.0" not in [one.name for one in found]
