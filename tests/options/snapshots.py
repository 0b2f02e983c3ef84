"""The helps of all verbs, as a terminal of 120 columns shows them.

python tests/options/snapshots.py     writes tests/options/helps
"""

from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from msprobe.cli import VERBS, main

HERE = Path(__file__).parent


def help_of(verb, language="en"):
    """The help of a verb, without one that of the command."""
    printed = StringIO()
    with (
        patch.dict("os.environ", {"COLUMNS": "120", "MSPROBE_LANG": language}),
        redirect_stdout(printed),
        suppress(SystemExit),
    ):
        main([*verb.split(), "-h"])
    return printed.getvalue()


if __name__ == "__main__":
    for lang in ("en", "zh"):
        for name in ("", *VERBS):
            path = HERE / "helps" / lang / f"{name.replace(' ', '_') or 'msprobe'}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(help_of(name, lang), "utf-8")
