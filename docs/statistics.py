"""Write what is generated from the table of statistics (`msprobe_ms/base/schema.py`).

python docs/statistics.py     writes msprobe_ms/base/_schema.h, and the table in reference/format.md in both languages
"""

import re
from pathlib import Path

from msprobe.base.schema import STATISTICS, c_header

HERE = Path(__file__).parent
HEADER = HERE.parent / "msprobe_ms" / "base" / "_schema.h"
TABLE = re.compile(r"(<!-- statistics -->\n).*?(\n<!-- end of statistics -->)", re.DOTALL)

DTYPES = {
    "en": {"biufc": "all", "iufc": "all but bool", "b": "bool", "fc": "floating-point, complex"},
    "zh": {"biufc": "全部", "iufc": "除 bool 外", "b": "bool", "fc": "浮点、复数"},
}
HEADS = {"en": ("Key", "Dtypes", "Meaning"), "zh": ("键", "dtype", "含义")}


def table(lang: str) -> str:
    """Return the table of all statistics in one of the languages."""
    heads = HEADS[lang]
    rows = [heads, ("---",) * len(heads)]
    rows += [(f"`{s.key}`", DTYPES[lang][s.dtypes], s.zh if lang == "zh" else s.text) for s in STATISTICS]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def page(lang: str) -> str:
    """Return reference/format.md with the table."""
    text = (HERE / lang / "reference" / "format.md").read_text("utf-8")
    return TABLE.sub(lambda found: f"{found[1]}\n{table(lang)}\n{found[2]}", text)


if __name__ == "__main__":
    HEADER.write_text(c_header(), "utf-8")
    for language in HEADS:
        (HERE / language / "reference" / "format.md").write_text(page(language), "utf-8")
