"""A curve of each row of a table of similarities, as PNG."""

import warnings
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from msprobe.base.files import make_folder, replace_atomically, safe_name
from msprobe.base.log import shortened, terminal_line

from .similarity import Similarities

_TITLE = 80  # characters


def draw(found: Similarities, folder: Path) -> None:
    """Draw the curves to `{name}_similarities.png`; raise an OSError if writing fails."""
    make_folder(folder)
    for name, shares in found.rows().items():
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = FigureCanvasAgg(figure).figure.subplots()
        axes.plot(found.steps, shares, marker="o", markersize=3, linewidth=1)
        # `$` would begin a formula
        axes.set_title(shortened(terminal_line(name), _TITLE).replace("$", r"\$"))
        axes.set_xlabel("step")
        axes.set_ylabel("share of equal signs")
        axes.grid(alpha=0.3)
        with replace_atomically(folder / safe_name(f"{name}_similarities.png")) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about characters that no installed font has
            figure.savefig(file, format="png", dpi=100)
