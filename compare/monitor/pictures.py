"""The curves of a finding as one PNG, where matplotlib is installed."""

from pathlib import Path

from msprobe.base.files import replacing

from .finding import Result


def draw(result: Result, path: Path) -> bool:
    """Draw both sides and the deviation with its band, a row for each series; False without matplotlib."""
    try:
        from matplotlib.figure import Figure  # an extra, and a second to load
    except ImportError:
        return False
    rows = len(result.curves)
    figure = Figure(figsize=(11, 2.4 * rows), layout="constrained")
    step = result.finding.step if result.finding is not None else None
    for row, curve in enumerate(result.curves):
        both, apart = (figure.add_subplot(rows, 2, 2 * row + at) for at in (1, 2))
        both.plot(curve.step, curve.b, label="B")
        both.plot(curve.step, curve.a, label="A", linestyle="--")
        title = f"{curve.kind} {curve.statistic} of {curve.name}, rank {curve.rank}"
        both.set_title(title.replace("$", r"\$"), fontsize=8)  # a name is no formula
        both.legend(fontsize=7)
        apart.fill_between(curve.step, -curve.limit, curve.limit, alpha=0.25, label="band")
        apart.plot(curve.step, curve.value, label="deviation")
        apart.legend(fontsize=7)
        for axes in (both, apart):
            axes.tick_params(labelsize=7)
            if step is not None:
                axes.axvline(step, color="crimson", linewidth=0.8)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110)
    return True
