"""Compare the settings of the frameworks: modes, precision, determinism. A table selects the decisive ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msprobe.base import redaction

from .findings import Checker, Kind, Level, SettingRow
from .hyperparameters import flat, same

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that changes numbers, by its name in each framework, with its default."""

    mindspore: str
    pytorch: str
    level: Level
    source: str
    default: object = None

    def name(self, framework: str) -> str:
        """Return its name in a framework; empty if there is none."""
        return self.mindspore if framework == "mindspore" else self.pytorch


_CONTEXT = "MindSpore: set_context, set_deterministic, device_context.ascend"
_TORCH = "PyTorch: reproducibility, CUDA semantics"

SETTINGS = (
    Setting("deterministic", "deterministic_algorithms", Level.ERROR, _CONTEXT, False),
    Setting("mode", "", Level.ERROR, _CONTEXT),
    Setting("jit_level", "", Level.ERROR, _CONTEXT, ""),
    Setting("precision_mode", "", Level.ERROR, _CONTEXT, ""),
    Setting("op_precision.op_precision_mode", "", Level.ERROR, _CONTEXT, ""),
    Setting("op_precision.matmul_allow_hf32", "cuda.matmul.allow_tf32", Level.ERROR, _CONTEXT, False),
    Setting("op_precision.conv_allow_hf32", "cudnn.allow_tf32", Level.ERROR, _CONTEXT, True),
    Setting("ascend_config.precision_mode", "", Level.ERROR, _CONTEXT, ""),
    Setting("ascend_config.matmul_allow_hf32", "npu.matmul.allow_hf32", Level.ERROR, _CONTEXT, False),
    Setting("ascend_config.conv_allow_hf32", "npu.conv.allow_hf32", Level.ERROR, _CONTEXT, True),
    Setting("ascend_config.jit_compile", "", Level.ERROR, _CONTEXT),
    Setting("ascend_config.atomic_clean_policy", "", Level.WARNING, _CONTEXT),
    Setting("matmul_allow_tf32", "", Level.ERROR, _CONTEXT, False),
    Setting("conv_allow_tf32", "", Level.ERROR, _CONTEXT, True),
    Setting("enable_graph_kernel", "", Level.ERROR, _CONTEXT, False),
    Setting("infer_boost", "", Level.ERROR, _CONTEXT, "off"),
    Setting("memory_optimize_level", "", Level.WARNING, _CONTEXT, 0),
    Setting("jit_syntax_level", "", Level.WARNING, _CONTEXT),
    Setting("runtime_num_threads", "num_threads", Level.WARNING, "on a CPU: order of sums"),
    Setting("device_target", "", Level.WARNING, _CONTEXT),
    Setting("parallel.parallel_mode", "", Level.ERROR, "MindSpore: set_auto_parallel_context", "stand_alone"),
    Setting("parallel.gradients_mean", "", Level.ERROR, "MindSpore: set_auto_parallel_context", False),
    Setting("parallel.gradient_fp32_sync", "", Level.ERROR, "MindSpore: set_auto_parallel_context", True),
    Setting("", "float32_matmul_precision", Level.ERROR, _TORCH, "highest"),
    Setting("", "cuda.matmul.allow_fp16_reduced_precision_reduction", Level.ERROR, _TORCH, True),
    Setting("", "cuda.matmul.allow_bf16_reduced_precision_reduction", Level.ERROR, _TORCH, True),
    Setting("", "cudnn.deterministic", Level.ERROR, _TORCH, False),
    Setting("", "cudnn.benchmark", Level.ERROR, _TORCH, False),
    Setting("", "cudnn.enabled", Level.ERROR, _TORCH, True),
    Setting("", "default_dtype", Level.ERROR, _TORCH, "torch.float32"),
    Setting("", "autocast", Level.WARNING, _TORCH, False),
    Setting("", "cuda.flash_sdp", Level.WARNING, _TORCH),
    Setting("", "cuda.mem_efficient_sdp", Level.WARNING, _TORCH),
    Setting("", "cuda.math_sdp", Level.WARNING, _TORCH),
)
"""The decisive settings, in the order of the sheet; other differences are only listed."""

_FRAMEWORK = "framework"
_SWITCHES: dict[object, object] = {"on": True, "off": False, "1": True, "0": False, "": None}


def compare(bench: Settings, cmp: Settings) -> Iterator[SettingRow]:
    """Yield the settings that differ: those of the table, then all others. Across frameworks, only settings of both are
    decisive."""
    ours, theirs = flat(bench), flat(cmp)
    frameworks = tuple(str(side.get(_FRAMEWORK) or "") for side in (ours, theirs))
    known: tuple[set[str], set[str]] = (set(), set())
    for each in SETTINGS:
        names = _names(each, frameworks, (ours, theirs))
        for name, seen in zip(names, known, strict=True):
            seen.add(name)
        values = ours.get(names[0]), theirs.get(names[1])
        if all(names) and (values[0] is not None or values[1] is not None):
            left, right = (each.default if value is None else value for value in values)
            if not _same(left, right):
                level = Level.WARNING if left is None or right is None else each.level
                yield _row(_kind(*values), level, names, values)
    if frameworks[0] != frameworks[1]:  # the other settings of one framework are not comparable with the other's
        return
    for name in sorted({*ours, *theirs} - known[0] - {_FRAMEWORK}):
        values = ours.get(name), theirs.get(name)
        if not _same(*values):
            yield _row(_kind(*values), Level.INFO, (name, name), values)


def _names(setting: Setting, frameworks: Sequence[str], sides: Sequence[Settings]) -> tuple[str, str]:
    """Return the name of a setting on each side: one that both have, for any frameworks, otherwise that of the
    framework."""
    for name in (setting.mindspore, setting.pytorch):
        if name and all(name in side for side in sides):
            return name, name
    return setting.name(frameworks[0]), setting.name(frameworks[1])


def _row(kind: Kind, level: Level, names: tuple[str, str], values: tuple[object, object]) -> SettingRow:
    return SettingRow(Checker.CONTEXT, kind, level, *names, *values)


def _kind(bench: object, cmp: object) -> Kind:
    if (redaction.is_redacted(bench) or redaction.is_redacted(cmp)) and redaction.same(bench, cmp) is None:
        return Kind.NOT_RECORDED
    return Kind.BENCH_ONLY if cmp is None else Kind.CMP_ONLY if bench is None else Kind.DIFFERS


def _same(ours: object, theirs: object) -> bool:
    if redaction.is_redacted(ours) or redaction.is_redacted(theirs):
        return bool(redaction.same(ours, theirs))
    return same(_switch(ours), _switch(theirs)) or same(ours, theirs)


def _switch(value: object) -> object:
    return _SWITCHES.get(value.strip().lower(), value) if isinstance(value, str) else value
