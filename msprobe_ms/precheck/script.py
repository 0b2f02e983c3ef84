"""A script that reproduces one call: under 80 lines next to an npz file, which runs without this tool.

The npz holds the inputs, what the outputs should be in float64, and how far each element may be off, so that the script
needs NumPy and the framework alone. Of drawn inputs it may hold several draws.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.files import make_folder, writing
from msprobe.replay.recorded import Array, Leaf, Named, RecordedCall, leaves
from msprobe.replay.references import Reference, References
from msprobe.replay.residual import FLOOR

from .judge import Reason, dtype_inside, judged, limits_of, systematic_size

_HEAD = {
    "mindspore": """import mindspore
from mindspore import Tensor, mint, ops

mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
framework = mindspore""",
    "pytorch": """import torch

framework = torch""",
}

_OWNERS = {
    "mindspore": {
        "Mint": "mint, mint.linalg, mint.special",
        "MintFunctional": "mint.nn.functional",
        "Functional": "ops",
        "Tensor": "Tensor",
        "Primitive": "ops",
    },
    "pytorch": {
        "Torch": "torch, torch.linalg, torch.fft, torch.special",
        "Functional": "torch.nn.functional, torch",
        "Tensor": "torch.Tensor",
        "VF": "torch._VF",
    },
}

_TENSOR = {
    "mindspore": """def tensor(name, dtype):
    return Tensor(data[name], getattr(mindspore, dtype))


def array(value):
    return (value.float() if value.dtype == mindspore.bfloat16 else value).asnumpy().astype(np.float64)""",
    "pytorch": """def tensor(name, dtype):
    return torch.from_numpy(data[name]).to(getattr(torch, dtype))


def array(value):
    return value.detach().double().numpy()""",
}

_GRADIENTS = {
    "mindspore": """def gradients(function, inputs, incoming):
    copied = lambda *values: tuple(function(*(value.copy() for value in values)))
    if len(incoming) == 1:
        return ops.GradOperation(get_all=True, sens_param=True)(lambda *v: copied(*v)[0])(*inputs, incoming[0])
    return ops.GradOperation(get_all=True, sens_param=True)(copied)(*inputs, tuple(incoming))""",
    "pytorch": """def gradients(function, inputs, incoming):
    inputs = [value.requires_grad_() for value in inputs]
    return torch.autograd.grad(function(*(value.clone() for value in inputs)), inputs, incoming)""",
}

_CHECK = '''def check(name, output, peak, mean, factor, constant):
    """|error| / scale <= peak, its rms <= mean; the error contains no factor or constant beyond the limit."""
    expected, scale = data["expected." + name], data["scale." + name]
    if output.shape != expected.shape:
        return f"shape {output.shape}, expected {expected.shape}"
    with np.errstate(all="ignore"):
        finite = np.isfinite(expected) & np.isfinite(output)
        if not ((output == expected) | finite | (np.isnan(output) & np.isnan(expected))).all():
            return "NaN or infinities at other positions than expected"
        error = np.where(finite, output - expected, 0.0)
        z = np.abs(np.divide(error, scale, out=np.zeros_like(error), where=error != 0))
        square = max(np.sum(expected[finite] ** 2), 1e-300)
        drift, offset = np.sum((error * expected)[finite]) / square, error.mean() / (square / error.size) ** 0.5
    print(f"{name}: largest error {np.abs(error).max(initial=0):.6g}, z {z.max(initial=0):.3g} of {peak:.3g}")
    wrong = z.max(initial=0) > peak or np.sqrt(np.mean(z**2)) > mean or abs(drift) > factor or abs(offset) > constant
    return "beyond the tolerance" if wrong else "pass"'''


@dataclass(frozen=True)
class Draw:
    """One execution to be reproduced: the call with its inputs, and what its outputs should be."""

    call: RecordedCall
    of: References


@dataclass(frozen=True)
class Story:
    """Return the top of the script."""

    title: str
    finding: str
    environment: str


def write_script(folder: Path, name: str, draws: Sequence[Draw], story: Story) -> tuple[Path, Path]:
    """Write `name`.py and `name`.npz; gives their paths. UsageError where the folder refuses."""
    content: dict[str, Array] = {}
    for number, draw in enumerate(draws):
        content |= {f"{number}.{key}": value for key, value in _inputs(draw.call).items()}
        for place, reference in enumerate(draw.of.outputs):
            exact = reference.sensitivity is None
            content[f"expected.{number}.{place}"] = np.asarray(reference.value, np.float64)
            content[f"scale.{number}.{place}"] = (
                np.zeros(reference.value.shape) if exact else scale_of(reference.sensitivity)
            )
    script, data = folder / f"{name}.py", folder / f"{name}.npz"
    with writing(folder):
        make_folder(folder)
        np.savez_compressed(data, **content)
        script.write_text(_text(draws, story), encoding="utf-8")
    return script, data


def scale_of(sensitivity: Array | None) -> Array:
    """Return max(S, 0.05 rms S), by which errors are divided (`replay.residual`)."""
    s = np.abs(np.asarray(sensitivity, np.float64))
    s = np.where(np.isfinite(s), s, 0.0)
    return np.maximum(s, FLOOR * float(np.sqrt(np.mean(np.square(s))))) if s.size else s


def _inputs(call: RecordedCall) -> dict[str, Array]:
    found = {_key(leaf): leaf.array for leaf in leaves([call.args, call.kwargs])}
    return found | {_key(leaf): leaf.array for leaf in call.incoming.values()}


def _key(leaf: Leaf) -> str:
    record = leaf.record
    direction = "incoming" if record.part == "input" and ".backward" in record.name else "input"
    return ".".join((direction, *record.path))


def _text(draws: Sequence[Draw], story: Story) -> str:
    call = draws[0].call
    framework = "mindspore" if call.framework == "mindspore" else "pytorch"
    parts = [
        f'"""{story.title}\n\n{story.finding}\nRecorded with {story.environment}.\n'
        'Exit code: 0 every output is within its tolerance, 1 one is not.\n"""',
        "import csv\nimport os\nimport sys\nfrom pathlib import Path\n\nimport numpy as np\n" + _HEAD[framework],
        'data = np.load(Path(__file__).with_suffix(".npz"))',
        _TENSOR[framework],
        *([_GRADIENTS[framework]] if call.is_backward else []),
        _CHECK,
        _calls(call, framework, len(draws)),
        _results(draws),
    ]
    return "\n\n".join(parts) + "\n"


def _calls(call: RecordedCall, framework: str, draws: int) -> str:
    prefix, _, rest = call.stem.partition(".")
    name = rest.rpartition(".")[2]
    owners = _OWNERS[framework].get(prefix, "ops" if framework == "mindspore" else "torch")
    found = f'next(getattr(owner, "{name}") for owner in ({owners},) if hasattr(owner, "{name}"))'
    lines = [f"function = {found}{'()' if prefix == 'Primitive' else ''}", "outputs = []", f"for n in range({draws}):"]
    wanted = [leaf for leaf, _ in call.gradients]
    names = {leaf: f"x{place}" for place, leaf in enumerate(wanted)}
    args = ", ".join(_arguments(call, framework, names))
    if not call.is_backward:
        lines += [
            f"    found = function({args})",
            "    found = found if isinstance(found, (tuple, list)) else (found,)",
            f"    outputs.append([{', '.join('found' + ''.join(f'[{i}]' for i in p) for p in call.outputs)}])",
        ]
        return "\n".join(lines)
    picked = ", ".join("found" + "".join(f"[{i}]" for i in path) for path in call.incoming)
    return "\n".join(
        [
            *lines,
            f"    def forward({', '.join(names.values())}):",
            f"        found = function({args})",
            "        found = found if isinstance(found, (tuple, list)) else (found,)",
            f"        return [{picked}]",
            "",
            f"    inputs = [{', '.join(_tensor(leaf) for leaf in wanted)}]",
            f"    incoming = [{', '.join(_tensor(leaf) for leaf in call.incoming.values())}]",
            "    outputs.append(gradients(forward, inputs, incoming))",
        ]
    )


def _tensor(leaf: Leaf) -> str:
    return f'tensor(f"{{n}}.{_key(leaf)}", "{leaf.dtype}")'


def _arguments(call: RecordedCall, framework: str, names: Mapping[Leaf, str]) -> Iterator[str]:
    def written(value: Any) -> str:
        if isinstance(value, Leaf):
            return names[value] if value in names else _tensor(value)
        if isinstance(value, Named):
            name = value.text.rpartition(".")[2].lower()
            is_bool = framework == "mindspore" and name == "bool"
            return f"framework.{'bool_' if is_bool else name}" if "dtype" in value.kind else "None"
        if isinstance(value, tuple):
            return f"({', '.join(map(written, value))}{',' * (len(value) == 1)})"
        if isinstance(value, float) and not np.isfinite(value):
            return f'float("{value}")'
        return repr(value)

    yield from map(written, call.args)
    yield from (f"{key}={written(value)}" for key, value in call.kwargs.items())


def _results(draws: Sequence[Draw]) -> str:
    """Return the tolerances, and the two tables that msprobe's scripts write."""
    of, call = draws[0].of, draws[0].call
    places = _places(call, of)
    rows = ", ".join(
        f"({place}, {', '.join(f'{limit:.4g}' for limit in _limits(of, reference))})"
        for place, reference in zip(places, of.outputs, strict=True)
    )
    return f"""rows = []
for n, found in enumerate(outputs):
    for k, (place, *tolerance) in enumerate([{rows}]):
        rows.append((f"{call.name}.output.{{place}}", check(f"{{n}}.{{k}}", array(found[place]), *tolerance)))
is_right = all(verdict == "pass" for _, verdict in rows)
os.makedirs("op_result_output", exist_ok=True)
for kind, table in (("details", rows), ("result", [("{call.name}", "pass" if is_right else "error")])):
    with open(f"op_result_output/accuracy_checking_{{kind}}.csv", "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([("API Name", "Status"), *table])
print(*(f"{{name}}: {{verdict}}" for name, verdict in rows), sep="\\n")
sys.exit(0 if is_right else 1)"""


def _limits(of: References, reference: Reference) -> tuple[float, float, float, float]:
    """Return the limits of z, of its rms, and of the systematic part if the output was wrong by that: as a multiple of
    the expected value, or as a constant."""
    unlimited = 1e300
    if reference.sensitivity is None or of.moves_data:
        return 0.0, 0.0, unlimited, unlimited
    dtype = dtype_inside(of, reference.record.dtype)
    size, reason = systematic_size(of, dtype), judged(of, reference)[0].reason
    return (
        *limits_of(of, dtype),
        size if reason is Reason.SCALED else unlimited,
        size if reason is Reason.SHIFTED else unlimited,
    )


def _places(call: RecordedCall, of: References) -> list[int]:
    gradients = [record.record.path for _, record in call.gradients]
    records = gradients if call.is_backward else list(call.outputs)
    return [records.index(reference.record.record.path) for reference in of.outputs]
