"""`GradComparator`: where the signs of the gradients of two runs begin to differ; see
`how-to/collecting/grad-probe.md`."""

import csv
import io
from os import PathLike
from pathlib import Path

from msprobe.base.files import make_folder, replace_atomically, user_path, writing
from msprobe.base.log import log_once, logger
from msprobe.compare.tables.cells import guard
from msprobe.store.monitor.gradient_files import rank_folder, ranks_in

from .similarity import Similarities, matched, similarities

AnyPath = str | PathLike[str]

TABLE = "similarities.csv"
PICTURES = "similarities_picture"


class GradComparator:
    """Compares the signs of gradients that the task `grad_probe` recorded in two runs, at levels L1 and L2."""

    @staticmethod
    def compare_distributed(path1: AnyPath, path2: AnyPath, output_dir: AnyPath) -> None:
        """Compare every rank that two outputs have; the result of each is written to `{output_dir}/rank{R}`.

        Raise a DumpError if a file is missing or damaged; it is also a RuntimeError if nothing matches or shapes
        differ, and a TypeError if a file does not contain signs.
        """
        one, other, output = user_path(path1), user_path(path2), user_path(output_dir)
        ranks = ranks_in(one), ranks_in(other)
        for rank in matched(*ranks, "rank", (one, other)):
            GradComparator.compare(ranks[0][rank], ranks[1][rank], rank_folder(output, rank))

    @staticmethod
    def compare(path1: AnyPath, path2: AnyPath, output_dir: AnyPath) -> None:
        """Compare the folders of two ranks: a table, and a picture of each of its rows if matplotlib is installed.

        Errors are those of `compare_distributed`, and a UsageError if the result cannot be written.
        """
        found = similarities(user_path(path1), user_path(path2))
        output = user_path(output_dir)
        write(found, output)
        logger.info(
            "the similarities of %d parameters at %d steps are in %s", len(found.parameters), len(found.steps), output
        )


def write(found: Similarities, output: Path) -> None:
    """Write table and pictures; raise a UsageError if writing fails."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["step", *found.steps])
    table.writerows([guard(name), *shares] for name, shares in found.rows().items())
    with writing(output, "choose another output_dir"):
        make_folder(output)
        with replace_atomically(output / TABLE) as file:
            file.write(text.getvalue().encode("utf-8", "backslashreplace"))
    try:
        from . import pictures  # here: it imports matplotlib, which is optional and takes a second
    except ImportError as err:
        log_once(
            "no matplotlib",
            f"pictures are not drawn ({err}); the table has all values; for pictures run `pip install "
            "'msprobe-ms[monitor]'`",
        )
        return
    with writing(output, "choose another output_dir"):
        pictures.draw(found, output / PICTURES)
