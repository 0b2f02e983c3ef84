"""Compare the versions of all packages: the listed ones are decisive."""

import re
from collections.abc import Iterator, Mapping

from .findings import Checker, Kind, Level, SettingRow

LISTED = ("transformers", "deepspeed", "megatron", "megatron-core", "numpy", "datasets", "peft", "accelerate",
          "mindspeed", "mindspeed-llm", "mindformers", "mindspeed-ms", "verl", "vllm", "tokenizers")  # fmt: skip
"""Packages whose version changes numbers: those of msprobe's list, and others that train."""

OF_FRAMEWORK = {
    "mindspore": ("mindspore", "mindspore-gpu", "mindspore-ascend"),
    "pytorch": ("torch", "torch-npu", "apex", "flash-attn", "triton"),
}
"""Decisive if both runs use that framework."""


def compare(bench: Mapping[str, str], cmp: Mapping[str, str], frameworks: tuple[str, str]) -> Iterator[SettingRow]:
    """Yield the packages that differ, the decisive ones first."""
    ours, theirs = ({_plain(name): (name, version) for name, version in side.items()} for side in (bench, cmp))
    deciding = {*LISTED}
    if frameworks[0] == frameworks[1] or not all(frameworks):
        named = OF_FRAMEWORK.get(frameworks[0] or frameworks[1])
        deciding |= {*(named or (name for names in OF_FRAMEWORK.values() for name in names))}
    names = sorted({*ours, *theirs}, key=lambda name: (name not in deciding, name))
    for name in names:
        left, right = ours.get(name, ("", "")), theirs.get(name, ("", ""))
        if left[1] == right[1]:
            continue
        kind = Kind.DIFFERS if left[0] and right[0] else Kind.BENCH_ONLY if left[0] else Kind.CMP_ONLY
        level = Level.INFO
        if name in deciding:
            is_same = kind is Kind.DIFFERS and left[1].partition("+")[0] == right[1].partition("+")[0]
            level = Level.WARNING if is_same else Level.ERROR  # `2.1.0+cpu` is another build of 2.1.0
        yield SettingRow(Checker.PIP, kind, level, left[0], right[0], left[1] or None, right[1] or None)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
