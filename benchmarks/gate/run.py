"""Record goldens of small trainings, and check harmless changes and faults against them; writes RESULTS.md.

    python benchmarks/gate/run.py [--only CHANGE ...] [--framework torch|mindspore] [--mindspore PYTHON ...]

`--mindspore` gives the Pythons of other versions of MindSpore, which check the golden of this one.

Each check runs the training in a process of its own. The truth is written in `train_torch.py` and below, before
anything is checked: a harmless change must be green, a fault must be red and name its call or parameter, and a training
that does not train must be reported as such.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

TORCH, OTHERS = HERE / "train_torch.py", HERE / "train_others.py"
MINDSPORE = ROOT / "tests/end_to_end/gate/gpt_mindspore.py"

TRUTH = {
    "scale": "__mul__",
    "eps": "layer_norm",
    "gelu": "gelu",
    "mask": "triu",
    "lr": "embedding",
    "beta2": "embedding",
    "transpose": "__getitem__",
    "weight": "blocks.2.mlp.up",
}
"""Parts of the names that the first line of the answer has to contain: of a call, or of a parameter. Settings of the
optimizer are reported at the first call that takes a parameter."""

ENVIRONMENTS = {
    "cpu-default": "ATEN_CPU_CAPABILITY=default",
    "cpu-avx2": "ATEN_CPU_CAPABILITY=avx2",
    "onednn-avx2": "ONEDNN_MAX_CPU_ISA=AVX2",
    "mkl-compatible": "MKL_CBWR=COMPATIBLE",
}
"""Variables of the environment that choose the kernels of another processor."""

UNTRAINED = ("no-backward", "no-update", "no-train")
FORMATS = ("json", "packed", "columnar")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--framework", choices=["torch", "mindspore"])
    parser.add_argument("--mindspore", nargs="+", default=[], metavar="PYTHON", help="with other versions of it")
    args = parser.parse_args()
    rows, sizes = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if args.framework != "mindspore":
            rows += torch_rows(folder, args.only, sizes)
            rows += other_rows(folder, args.only, sizes)
        if args.framework != "torch":
            rows += mindspore_rows(folder, args.only, sizes, args.mindspore)
    text = report(rows, sizes)
    print(text)
    if not args.only and not args.framework:
        (HERE / "RESULTS.md").write_text(text)


def torch_rows(folder, only, sizes):
    from train_torch import FAULTS, HARMLESS

    golden = folder / "gpt-torch.golden"
    sizes.append(("GPT of 4 blocks, width 64, PyTorch", *record(golden, [sys.executable, TORCH])))
    for change, meaning in {**HARMLESS, **FAULTS}.items():
        if only and change not in only:
            continue
        done = check(golden, "--", *environment(change, folder), sys.executable, TORCH, "--change", change)
        expected = 2 if change == "fails" else 3 if change in UNTRAINED else 1 if change in FAULTS else 0
        yield row("PyTorch", change, meaning, expected, done)
    yield from format_rows("PyTorch", golden, folder, [sys.executable, TORCH], only)


def format_rows(framework, golden, folder, command, only):
    for form in FORMATS:
        if not only or f"format-{form}" in only:
            run = folder / f"{golden.stem}-{form}"
            collect(run, form, command)
            yield row(
                framework, f"format-{form}", f"an existing dump, format {form}", 0, check(golden, "--target", run)
            )


def environment(change, folder):
    """Return words that set the environment of a change for a command; numpy 2 is installed into a folder for it."""
    if change in ENVIRONMENTS:
        return ["env", ENVIRONMENTS[change]]
    if change != "numpy-2":
        return []
    place = folder / "numpy-2"
    if not place.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place), "numpy>=2,<3"]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    return ["env", f"PYTHONPATH={place}"]


def other_rows(folder, only, sizes):
    from train_others import FAULTS, HARMLESS, MODELS
    from train_others import TRUTH as NAMES

    for model, changes in MODELS.items():
        golden = folder / f"{model}.golden"
        sizes.append((f"{model}, PyTorch", *record(golden, [sys.executable, OTHERS, model])))
        for change in changes:
            if not only or change in only:
                words = (*environment(change, folder), sys.executable, OTHERS, model, "--change", change)
                done = check(golden, "--", *words)
                meaning = {**HARMLESS, **FAULTS}[change]
                yield row(f"PyTorch, {model}", change, meaning, int(change in FAULTS), done, NAMES)
        yield from format_rows(f"PyTorch, {model}", golden, folder, [sys.executable, OTHERS, model], only)


def mindspore_rows(folder, only, sizes, others):
    golden = folder / "gpt-mindspore.golden"
    sizes.append(("GPT of 2 blocks, width 16, MindSpore", *record(golden, [sys.executable, MINDSPORE])))
    changes = {
        "none": (0, "nothing is changed"),
        "order": (0, "the product of the MLP in two halves, added at the end"),
        "matmul": (0, "a layer of the MLP written out"),
        "split": (0, "the batch in two micro batches, whose gradients are added"),
        "synchronous": (0, "PyNative without its asynchronous pipeline"),
        "threads-1": (0, "one thread of the runtime"),
        "scale": (1, "one layer scales its output by 1.02"),
        "eps": (1, "the epsilon of a LayerNorm is 1e-3"),
        "still": (3, "the optimizer is never called"),
    }
    for change, (expected, meaning) in changes.items():
        if not only or change in only:
            done = check(golden, "--", sys.executable, MINDSPORE, "" if change == "none" else change)
            yield row("MindSpore", change, meaning, expected, done)
    yield from format_rows("MindSpore", golden, folder, [sys.executable, MINDSPORE], only)
    for python in others if not only else ():
        asked = "from importlib.metadata import version; print(version('mindspore'))"
        number = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
        for change, expected in (("", 0), ("scale", 1)):
            done = check(golden, "--", python, MINDSPORE, change)
            meaning = f"MindSpore {number}" + (f", and {changes[change][1]}" if change else "")
            yield row("MindSpore", change or "none", meaning, expected, done)


def gate(words, **more):
    command = [sys.executable, "-m", "msprobe", "gate", *map(str, words)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, **more)
    return done, time.perf_counter() - began


def record(golden, command):
    """Record a golden; return its size in bytes, the elements of each tensor, and the seconds."""
    done, seconds = gate(["record", "--golden", golden, "--", *command])
    if done.returncode:
        sys.exit(done.stderr)
    shown, _ = gate(["show", golden, "--json"])
    return golden.stat().st_size, json.loads(shown.stdout)["details"]["sampled"], seconds


def check(golden, *source):
    done, seconds = gate(["check", "--golden", golden, "--json", *source])
    document = json.loads(done.stdout) if done.stdout else {"answer": done.stderr.splitlines()[-1], "findings": []}
    return done.returncode, document, seconds


def collect(folder, form, command):
    """Collect a run as a user does, into a folder that is kept."""
    folder.mkdir()
    settings = folder.with_suffix(".json")
    content = {"task": "tensor", "level": "mix", "step": ["0-2"], "dump_path": str(folder), "format": form}
    settings.write_text(json.dumps(content))
    environment = {**os.environ, "MSPROBE_SETTINGS": str(settings)}
    subprocess.run(command, env=environment, capture_output=True, check=True)


def row(framework, change, meaning, expected, done, truth=TRUTH):
    code, document, seconds = done
    first = document["findings"][0] if document["findings"] else None
    named = ""
    if expected == 1:
        named = "yes" if first and truth[change] in f"{first['place']['name']} {first['message']}" else "NO"
    is_right = code == expected and named != "NO"
    answer = document["answer"] if first is None else f"{first['place']['name']}: {first['kind']}"
    answer = answer.replace(sys.executable, "python").replace(f"{ROOT}/", "")
    print(f"{framework} {change}: exit {code}, expected {expected}, {seconds:.1f} s", file=sys.stderr)
    return framework, change, meaning, expected, code, named, seconds, " ".join(answer.split())[:150], is_right


def report(rows, sizes):
    """Return the results as Markdown."""
    rows = list(rows)
    lines = [
        "# The numerics gate: measured results",
        "",
        "Written by `python benchmarks/gate/run.py`: each row is `msprobe gate check` around a training of three",
        "steps, in a process of its own. Seconds include the training and the import of the framework.",
        "",
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in ("torch", "mindspore", "numpy", "pyarrow")),
        "",
        "| golden | bytes | elements of a tensor | seconds to record |",
        "|---|---|---|---|",
        *(f"| {name} | {size} | at most {sampled} | {seconds:.1f} |" for name, size, sampled, seconds in sizes),
        "",
        f"{sum(each[-1] for each in rows)} of {len(rows)} rows are as expected.",
        "",
        "| | change | expected | exit code | named | seconds | answer |",
        "|---|---|---|---|---|---|---|",
    ]
    for framework, change, meaning, expected, code, named, seconds, answer, is_right in rows:
        mark = "" if is_right else " **wrong**"
        cells = (framework, f"`{change}`: {meaning}", expected, f"{code}{mark}", named, f"{seconds:.1f}", answer)
        lines.append(f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
