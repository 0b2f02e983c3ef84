"""One set of weights for both sides of a twin, made from the names in the truth, whatever the frameworks' order."""

import hashlib

import numpy as np


def weight(key, shape, equal=False):
    """The weight of a key: as large as trained ones are. With `equal` it depends on the shape alone."""
    seed = repr(tuple(shape)) if equal else key
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big"))
    values = rng.standard_normal(shape)
    if len(shape) > 1:
        values /= np.sqrt(np.prod(shape[1:]))
    elif key.endswith(("gamma", "norm.weight", "norm1.weight", "norm2.weight", "variance")):
        values = 1 + 0.1 * np.abs(values)
    else:
        values *= 0.1
    return values.astype(np.float32)


def weights(parameters, shapes, equal=False):
    """{name: array} for the parameters of one side; `shapes` are those that its net has.

    A parameter that the net does not have is left out: a planted bug may have taken it away.
    """
    made = {}
    for parameter in parameters:
        shape = shapes.get(parameter.name)
        if shape is None:
            continue
        if parameter.rows is not None:
            start, stop = parameter.rows
            whole = made.setdefault(parameter.name, np.zeros(shape, np.float32))
            whole[start:stop] = weight(parameter.key, (stop - start, *shape[1:]), equal)
        elif parameter.transposed:
            made[parameter.name] = np.ascontiguousarray(weight(parameter.key, shape[::-1], equal).T)
        else:
            made[parameter.name] = weight(parameter.key, shape, equal)
    return made
