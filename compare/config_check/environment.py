"""Compare variables of the environment: those of the table are decisive, other differences are listed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msprobe.base import redaction

from .findings import Checker, Kind, Level, SettingRow


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that changes numbers: its name on an NPU and on a GPU (empty if there is none), its default, and the
    source."""

    npu: str
    gpu: str
    default: str
    source: str


_HCCL = "HCCL, collective communication: environment variables"
_SPEC = "msprobe: config_check"
_RUNTIME = "MindSpore: environment variables"
_NVIDIA = "CUDA and cuBLAS: reproducibility"

VARIABLES = (
    Variable("HCCL_DETERMINISTIC", "NCCL_DETERMINISTIC", "false", _HCCL),
    Variable("HCCL_ALGO", "NCCL_ALGO", "", _HCCL),
    Variable("HCCL_INTRA_ROCE_ENABLE", "", "0", _HCCL),
    Variable("HCCL_INTRA_PCIE_ENABLE", "", "1", _HCCL),
    Variable("ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING", "0", _SPEC),
    Variable("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "", _SPEC),
    # In addition to msprobe's list: variables that change dtypes, the order of sums, or the computed functions.
    Variable("MS_ASCEND_CHECK_OVERFLOW_MODE", "", "", _RUNTIME),
    Variable("MS_JIT", "MS_JIT", "1", _RUNTIME),
    Variable("MS_ENABLE_INTERNAL_KERNELS", "", "", _RUNTIME),
    Variable("MS_INTERNAL_DISABLE_CUSTOM_KERNEL_LIST", "", "", _RUNTIME),
    Variable("MS_ENABLE_LCCL", "", "", _RUNTIME),
    Variable("MS_SIMULATION_LEVEL", "MS_SIMULATION_LEVEL", "", _RUNTIME),
    Variable("TE_PARALLEL_COMPILER", "", "", _RUNTIME),
    Variable("INF_NAN_MODE_ENABLE", "", "", "Ascend: saturation or IEEE infinities"),
    Variable("CLOSE_MATMUL_K_SHIFT", "", "0", "Ascend: order of sums of a matmul"),
    Variable("ATB_MATMUL_SHUFFLE_K_ENABLE", "", "1", "Ascend: order of sums of a matmul"),
    Variable("LCCL_DETERMINISTIC", "", "0", _HCCL),
    Variable("", "CUBLAS_WORKSPACE_CONFIG", "", _NVIDIA),
    Variable("", "NVIDIA_TF32_OVERRIDE", "", _NVIDIA),
    Variable("", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "0", _NVIDIA),
    Variable("PYTHONHASHSEED", "PYTHONHASHSEED", "", "Python: order of sets of texts"),
)

FAMILIES = ("MS_DEV_", "MS_ENABLE_", "MS_DISABLE_", "MS_ALLOC_", "ACLNN_", "NCCL_", "HCCL_", "TORCH_", "CUDNN_", "OMP_",
            "MKL_", "OPENBLAS_", "TASK_QUEUE_", "COMBINED_", "FLASH_ATTENTION", "XLA_")  # fmt: skip
"""Prefixes of variables that may change numbers: a difference is a warning."""

_OF_PLACE = ("PORT", "PATH", "ADDR", "IP", "DIR", "FILE", "LOG", "LEVEL", "TIMEOUT", "HOME", "IFNAME", "DEBUG", "NODE")
"""Parts of names of variables that differ between any two machines; they are only remarks."""

_WORDS = {"true": "1", "on": "1", "yes": "1", "false": "0", "off": "0", "no": "0", "none": ""}
_NOTHING = "None"


def is_npu(variables: Mapping[str, str]) -> bool:
    """Return whether a run was on Ascend: by the name of any variable, as in msprobe. HCCL's are not evidence:
    MindSpore sets `HCCL_CONNECT_TIMEOUT` when it is imported, also on a CPU."""
    return any("ASCEND" in name for name in variables)


def compare(bench: Mapping[str, str], cmp: Mapping[str, str]) -> Iterator[SettingRow]:
    """Yield the variables of the table that differ, then all others that do."""
    known: set[str] = set()
    for variable in VARIABLES:
        for names in _names(variable, bench, cmp):
            known |= {name for name in names if name}
            if row := _of_table(variable, names, (bench.get(names[0]), cmp.get(names[1]))):
                yield row
    others = sorted({*bench, *cmp} - known)
    for name in sorted(others, key=lambda name: not _may_matter(name)):
        ours, theirs = bench.get(name), cmp.get(name)
        hidden = redaction.is_redacted(ours) or redaction.is_redacted(theirs)
        if not redaction.same(ours or "", theirs or "") if hidden else ours != theirs:
            level = Level.WARNING if _may_matter(name) and not hidden and _plain(ours) != _plain(theirs) else Level.INFO
            yield _row(_kind(ours, theirs), level, (name, name), (ours, theirs))


def _names(variable: Variable, bench: Mapping[str, str], cmp: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the names under which a variable is compared.

    A name that both sides set is compared, for any devices. Otherwise the devices decide: a side that sets the name of
    another device has it, and a side that sets none has its own default.
    """
    names = [name for name in dict.fromkeys((variable.npu, variable.gpu)) if name]
    if shared := [(name, name) for name in names if name in bench and name in cmp]:
        return shared
    npu = is_npu(bench), is_npu(cmp)
    of_device = [variable.npu if each else variable.gpu for each in npu]
    found = [
        name if name in side else next((each for each in names if each in side), "")
        for name, side in zip(of_device, (bench, cmp), strict=True)
    ]
    if npu[0] == npu[1]:  # one name for both sides, if one side sets it
        found = [found[0] or found[1], found[1] or found[0]]
    return [(found[0] or of_device[0], found[1] or of_device[1])]


def _of_table(variable: Variable, names: tuple[str, str], values: tuple[str | None, str | None]) -> SettingRow | None:
    bench, cmp = (variable.default if value is None else value for value in values)
    if any(map(redaction.is_redacted, values)):
        equal = redaction.same(bench, cmp)
        kind, level = (Kind.NOT_RECORDED, Level.WARNING) if equal is None else (Kind.DIFFERS, Level.ERROR)
        return None if equal else _row(kind, level, names, values)
    if all(names):
        if _plain(bench) == _plain(cmp):
            return None
        shown = bench or _NOTHING, cmp or _NOTHING
        return _row(Kind.DIFFERS, Level.ERROR, names, shown)
    if any(value is not None and _plain(value) != _plain(variable.default) for value in values):
        kind = Kind.BENCH_ONLY if names[0] else Kind.CMP_ONLY
        return _row(kind, Level.WARNING, names, values)
    return None


def _row(kind: Kind, level: Level, names: tuple[str, str], values: tuple[str | None, str | None]) -> SettingRow:
    return SettingRow(Checker.ENV, kind, level, *names, *values)


def _kind(bench: str | None, cmp: str | None) -> Kind:
    if (redaction.is_redacted(bench) or redaction.is_redacted(cmp)) and redaction.same(bench or "", cmp or "") is None:
        return Kind.NOT_RECORDED
    return Kind.BENCH_ONLY if cmp is None else Kind.CMP_ONLY if bench is None else Kind.DIFFERS


def _may_matter(name: str) -> bool:
    return name.startswith(FAMILIES) and not any(part in _OF_PLACE for part in name.split("_"))


def _plain(value: str | None) -> str:
    """Return a value without the variations of shells: letter case, surrounding spaces, words for yes and no."""
    text = (value or "").strip().lower()
    return _WORDS.get(text, text)
