"""The statistics of a tensor, one row each: how a record spells them, how they merge and how they are compared.

Everything that lists statistics takes them from `STATISTICS`: the codec of records (JSON, Parquet and the C sources,
whose table `_schema.h` is generated), the columns of a dump, the merge of ranks, the sheets, and the table in the docs.
`python docs/statistics.py` writes the generated parts; a test compares them with this table.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "count", "digest", "share", "layout"]
"""`number`: every tensor with elements has it, or null. `count`: written where it is not 0. `digest`: a text. Only if
the configuration asks for it: `share`, of the elements that a limit separates, and `layout`, integers."""

Merge = Literal["max", "min", "mean", "norm", "sum", "none"]
"""How those of the parts of a tensor become that of the whole: the largest, the smallest, the mean weighted by the
numbers of elements, the root of the sum of squares, the sum; `none`: it is lost."""

Rule = Literal["extreme", "mean", "norm", "equal", "shown"]
"""Which allowance a difference has (`compare/measure/statistics.py`); `equal`: none; `shown`: it is never judged."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic of a tensor.

    name : the name in code and in findings
    key : the key in a record
    dtypes : the kinds of dtypes that have it, by numpy's letters
    titles : the titles of the columns of a comparison: the difference, the relative difference, the value
    noun : its noun in the explanations of these columns
    limit : of a share, the limit of the magnitudes
    is_below : whether the share is of the elements below the limit, or of those that are not
    operation, column : its name among the monitor's operations, and its column of what `brief.py` measures
    text, zh : the explanation in the docs
    """

    name: str
    key: str
    kind: Kind
    dtypes: str
    merge: Merge
    rule: Rule
    text: str
    zh: str
    titles: tuple[str, str, str] = ("", "", "")
    noun: str = ""
    limit: float = 0.0
    is_below: bool = True
    operation: str = ""
    column: int = -1


@dataclass(frozen=True, slots=True)
class Format:
    """The range of a floating-point format: its smallest normal number, and its largest finite one."""

    smallest_normal: float
    largest: float
    source: str


FORMATS = {
    "fp16": Format(2.0**-14, 65504.0, "IEEE 754, binary16"),
    "bf16": Format(2.0**-126, (2 - 2.0**-7) * 2.0**127, "the upper half of IEEE 754, binary32"),
    "e4m3": Format(2.0**-6, 448.0, "OCP 8-bit Floating Point Specification 1.0, E4M3 (`float8_e4m3fn`)"),
    "e5m2": Format(2.0**-14, 57344.0, "OCP 8-bit Floating Point Specification 1.0, E5M2"),
    # The greatest code, 1.5 * 2^15, is infinity; numbers from 2^-22 to 2^-16 are HiFloat8's denormal ones.
    "hif8": Format(2.0**-15, 32768.0, "Ascend HiFloat8 Format for Deep Learning, arXiv:2409.16626"),
}
"""By the name in a configuration."""

STATISTICS = (
    Statistic(
        name="max",
        key="Max",
        kind="number",
        dtypes="biufc",
        merge="max",
        rule="extreme",
        text="the largest element",
        zh="最大元素",
        titles=("Max diff", "MaxRelativeErr", "max"),
        operation="max",
        column=2,
        noun="maximum",
    ),
    Statistic(
        name="min",
        key="Min",
        kind="number",
        dtypes="biufc",
        merge="min",
        rule="extreme",
        text="the smallest element",
        zh="最小元素",
        titles=("Min diff", "MinRelativeErr", "min"),
        operation="min",
        column=1,
        noun="minimum",
    ),
    Statistic(
        name="mean",
        key="Mean",
        kind="number",
        dtypes="iufc",
        merge="mean",
        rule="mean",
        text="the mean of the elements",
        zh="元素的均值",
        titles=("Mean diff", "MeanRelativeErr", "mean"),
        operation="mean",
        column=5,
        noun="mean",
    ),
    Statistic(
        name="norm",
        key="Norm",
        kind="number",
        dtypes="iufc",
        merge="norm",
        rule="norm",
        text="the L2 norm",
        zh="L2 范数",
        titles=("L2norm diff", "NormRelativeErr", "l2norm"),
        operation="norm",
        column=0,
        noun="L2 norm",
    ),
    Statistic(
        name="true_count",
        key="true_count",
        kind="count",
        dtypes="b",
        merge="sum",
        rule="equal",
        text="*(msprobe-ms)* int: the number of elements that are true",
        zh="*（本工具）* int：为真的元素个数",
    ),
    Statistic(
        name="nan",
        key="nan_count",
        kind="count",
        operation="nans",
        column=4,
        dtypes="fc",
        merge="sum",
        rule="equal",
        text="*(msprobe-ms)* int: the number of NaN elements, present if greater than 0. If one of this and the next"
        " two keys is present, absent ones are 0; if none is present, all elements are finite or were not counted. Two"
        " tensors with different counts differ, even if NaN makes their statistics equal",
        zh="*（本工具）* int：NaN 元素的个数，大于 0 时才有。本键与下两键三者有其一，则其余为 0；都没有，则所有元素"
        "都是有限值，或没有人数过。计数不同的两个张量是不同的，尽管 NaN 使它们的统计量看起来一样",
    ),
    Statistic(
        name="positive_inf",
        key="positive_inf_count",
        kind="count",
        dtypes="fc",
        merge="sum",
        rule="equal",
        text="*(msprobe-ms)* int: the number of elements that are plus infinity, present if greater than 0",
        zh="*（本工具）* int：正无穷元素的个数，大于 0 时才有",
    ),
    Statistic(
        name="negative_inf",
        key="negative_inf_count",
        kind="count",
        dtypes="fc",
        merge="sum",
        rule="equal",
        text="*(msprobe-ms)* int: the number of elements that are minus infinity, present if greater than 0",
        zh="*（本工具）* int：负无穷元素的个数，大于 0 时才有",
    ),
    Statistic(
        name="digest",
        key="md5",
        kind="digest",
        dtypes="biufc",
        merge="none",
        rule="equal",
        text="only with summary_mode md5: CRC-32 of the bytes in C order, bfloat16 widened to float32, 8 lower-case hex"
        " digits; with summary_mode crc32c *(msprobe-ms)*: `crc32c:` and the 8 digits of their CRC-32C (polynomial"
        " 0x1EDC6F41, RFC 3720). A reader MUST NOT compare a digest with one of another kind",
        zh="仅在 summary_mode 为 md5 时：按 C 顺序的字节的 CRC-32，bfloat16 先扩展为 float32，8 位小写十六进制数字；"
        "summary_mode 为 crc32c 时*（本工具）*：`crc32c:` 加其 CRC-32C（多项式 0x1EDC6F41，RFC 3720）的 8 位数字。"
        "读取方不得把两种摘要相互比较",
    ),
    Statistic(
        name="zeros",
        key="zeros",
        kind="share",
        dtypes="biufc",
        merge="mean",
        rule="shown",
        noun="share of zeros",
        operation="zeros",
        column=3,
        limit=5e-324,  # the smallest positive number
        text="*(msprobe-ms)* float: the share of the elements that are exactly 0; only if asked for",
        zh="*（本工具）* float：恰为 0 的元素所占比例；仅在配置后才有",
    ),
    *(
        Statistic(
            name=f"underflow:{name}",
            key=f"underflow:{name}",
            kind="share",
            dtypes="fc",
            merge="mean",
            rule="shown",
            noun=f"share of elements that are 0 or subnormal in {name}",
            limit=format.smallest_normal,
            text=f"*(msprobe-ms)* float: the share of the elements that are 0 or subnormal in {name}, "
            f"abs(x) < {format.smallest_normal:.9g} ({format.source}); only if asked for",
            zh=f"*（本工具）* float：在 {name} 中为 0 或非规格化的元素所占比例，abs(x) < {format.smallest_normal:.9g}；"
            "仅在配置后才有",
        )
        for name, format in FORMATS.items()
    ),
    *(
        Statistic(
            name=f"saturated:{name}",
            key=f"saturated:{name}",
            kind="share",
            dtypes="fc",
            merge="mean",
            rule="shown",
            noun=f"share of elements at or beyond the largest finite number of {name}",
            limit=format.largest,
            is_below=False,
            text=f"*(msprobe-ms)* float: the share of the elements at or beyond the largest finite number of {name}, "
            f"abs(x) >= {format.largest:.9g}, infinities included; only if asked for",
            zh=f"*（本工具）* float：达到或超过 {name} 最大有限值的元素所占比例，abs(x) >= {format.largest:.9g}，"
            "含无穷；仅在配置后才有",
        )
        for name, format in FORMATS.items()
    ),
    Statistic(
        name="stride",
        key="stride",
        kind="layout",
        dtypes="biufc",
        merge="none",
        rule="shown",
        text="*(msprobe-ms)* list of int: the strides of the tensor in elements; only with `layout`",
        zh="*（本工具）* int 列表：张量的步长，以元素计；仅在配置 `layout` 后才有",
    ),
    Statistic(
        name="storage_offset",
        key="storage_offset",
        kind="layout",
        dtypes="biufc",
        merge="none",
        rule="shown",
        text="*(msprobe-ms)* int: the offset of the tensor in its storage, in elements; only with `layout`",
        zh="*（本工具）* int：张量在其存储中的偏移，以元素计；仅在配置 `layout` 后才有",
    ),
)

NUMBERS = tuple(each for each in STATISTICS if each.kind == "number")
"""What every record of a tensor with statistics has, in the order of the record and of the columns."""

NON_FINITE = tuple(each for each in STATISTICS if each.kind == "count" and "f" in each.dtypes)
COUNTS = tuple(each for each in STATISTICS if each.kind == "count")
DIGEST = next(each for each in STATISTICS if each.kind == "digest")
SHARES = tuple(each for each in STATISTICS if each.kind == "share")
LAYOUT = tuple(each for each in STATISTICS if each.kind == "layout")
OPTIONAL = frozenset(each.key for each in (*SHARES, *LAYOUT))
NAMES = tuple(each.name for each in NUMBERS)
KEYS = tuple(each.key for each in NUMBERS)
OPERATIONS = tuple(each.operation for each in sorted(STATISTICS, key=lambda each: each.column) if each.column >= 0)
"""What the monitor measures, in its order. Its `zeros` are those below the `eps` of its configuration."""

BY_NAME = {each.name: each for each in STATISTICS}
AT = {each.name: at for at, each in enumerate(NUMBERS)}
"""The column of each number."""

_MEMBERS = ",".join(f'"{key}":%s' for key in KEYS)


def members(numbers: tuple[str, ...]) -> str:
    """Return the members of a record that hold the numbers, whose texts are given in the order of `NUMBERS`."""
    return _MEMBERS % numbers


def merge(how: Merge, numbers: Sequence[float], sizes: Sequence[int]) -> float:
    """Return a statistic of a tensor from those of its parts, which have `sizes` elements.

    Without elements, the mean is 0.
    """
    match how:
        case "max":
            return max(numbers)
        case "min":
            return min(numbers)
        case "norm":
            return math.hypot(*numbers)
        case "mean":  # not `fsum`, which raises if infinities of both signs meet
            return sum(number * size for number, size in zip(numbers, sizes, strict=True)) / max(sum(sizes), 1)
        case _:
            raise ValueError(f"{how}: not a merge of numbers")


def c_header() -> str:
    """Return the text of `_schema.h`: the keys of a record for the C sources."""
    lines = [
        "/* The keys of a record's statistics, generated from schema.py by `python docs/statistics.py`. */",
        "",
        f"enum {{ NUMBERS = {len(NUMBERS)} }}; /* that every record of a tensor with statistics has */",
    ]
    for number, each in enumerate((*NUMBERS, *COUNTS, DIGEST)):
        comma = "" if number == 0 else ","
        lines.append(f'#define KEY_{each.name.upper()} "{comma}\\"{each.key}\\":"')
    keys = ", ".join(f'"{key}"' for key in KEYS)
    # The scanner leaves records with these to Python.
    optional = ", ".join(f'"{each.key}"' for each in STATISTICS if each.key in OPTIONAL)
    lines += [
        f"#define NUMBER_KEYS {{{keys}}}",
        f'#define DIGEST_NAME "{DIGEST.key}"',
        f"#define OPTIONAL_KEYS {{{optional}}}",
        *(f"#define COLUMN_{each.operation.upper()} {each.column}" for each in STATISTICS if each.column >= 0),
        f"#define COLUMNS {len(OPERATIONS)} /* of the monitor's lean pass */",
        "",
    ]
    return "\n".join(lines)
