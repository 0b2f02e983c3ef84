"""The helps of all verbs, as a terminal of 120 columns shows them.

python tests/options/snapshots.py     writes tests/options/helps
"""

from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from msprobe.cli import VERBS, main

HERE = Path(__file__).parent


def help_of(verb):
    """The help of a verb, without one that of the command."""
    printed = StringIO()
    with patch.dict("os.environ", {"COLUMNS": "120"}), redirect_stdout(printed), suppress(SystemExit):
        main([*verb.split(), "-h"])
    return printed.getvalue()


if __name__ == "__main__":
    for name in ("", *VERBS):
        (HERE / "helps" / f"{name.replace(' ', '_') or 'msprobe'}.txt").write_text(help_of(name), "utf-8")
