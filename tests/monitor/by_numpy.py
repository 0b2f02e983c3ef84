"""Statistics as the specification defines them, by numpy, and rows held against them."""

import numpy as np


def statistics(array, eps=1e-8):
    """Of a float32 copy; `zeros` is the part of elements below `eps`."""
    wide = np.asarray(array, np.float64).ravel()
    return {
        "norm": float(np.sqrt((wide**2).sum())),
        "min": float(wide.min()),
        "max": float(wide.max()),
        "zeros": float((np.abs(wide) < eps).mean()),
        "nans": float(np.isnan(wide).sum()),
        "mean": float(wide.mean()),
    }


def holds(row, array, eps=1e-8):
    """A row has these statistics: six decimals, or six digits of small numbers."""
    scale = float(np.abs(np.asarray(array, np.float64)).max())
    for name, value in statistics(array, eps).items():
        found = float(row[name])
        assert abs(found - value) <= 1e-6 * max(abs(value), 1) + 3e-7 * scale, (row["name"], name, found, value)
    return row["shape"].strip("()[]").rstrip(",") == str(list(np.shape(array))).strip("[]")


def named(rows, name, step, micro=None):
    """The one row of a name and step."""
    found = [
        row
        for row in rows
        if row["name"] == name and int(row["step"]) == step and (micro is None or int(row["micro_step"]) == micro)
    ]
    assert len(found) == 1, (name, step, micro, len(found))
    return found[0]
