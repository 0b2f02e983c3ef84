"""A change of an array, as a fault file writes it: `{at: [0], scale: 1.001}`."""

import numpy as np


def changed(array, effect):
    """A copy of the array with an effect; an empty effect changes nothing.

    `at`: the index of what changes, a number or null (all) for each axis; without it everything. One of `scale`
    (times), `shift` (plus), `set`, `keep_bits` (mantissa bits kept of float32), `roll` (places along the last axis),
    `transpose` (the last two axes), `reverse` (along the given axis) says what happens to it.
    """
    array = np.array(array)
    if not effect:
        return array
    at = tuple(slice(None) if n is None else n for n in effect.get("at", [])) or ...
    part = array[at]
    if "scale" in effect:
        part = part * array.dtype.type(effect["scale"])
    elif "shift" in effect:
        part = part + array.dtype.type(effect["shift"])
    elif "set" in effect:
        part = np.full_like(part, effect["set"])
    elif "keep_bits" in effect:
        dropped = np.uint32(23 - effect["keep_bits"])
        part = ((np.ascontiguousarray(part).view(np.uint32) >> dropped) << dropped).view(np.float32)
    elif "roll" in effect:
        part = np.roll(part, effect["roll"], -1)
    elif "transpose" in effect:
        part = np.swapaxes(part, -1, -2)
    elif "reverse" in effect:
        part = np.flip(part, effect["reverse"])
    else:
        raise ValueError(f"an effect has none of the known changes: {effect}")
    array[at] = part
    return array
