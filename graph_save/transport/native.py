"""Reports of running graphs by operators in C (`graph_save/_operators.c`), if they were built."""

import mindspore as ms
from mindspore import ops

from msprobe.graph_save.operators import has_tensor_dump

from . import reports


def _operator(name: str) -> ops.Primitive:
    """Return an operator of the extension, which the framework finds in the library that Python has loaded."""
    made: ops.Primitive = ops.Custom(
        f"{reports.library.__file__}:msprobe_{name}", out_shape=[1], out_dtype=ms.int32, func_type="aot"
    )
    made.add_prim_attr("side_effect_io", True)
    return made


def _can_run() -> bool:
    """Return whether the operators were built and are tested with this version and device."""
    version = tuple(int(part) for part in ms.__version__.split(".")[:2])
    return reports.library is not None and version >= (2, 10) and not has_tensor_dump()


def _operators() -> tuple[ops.Primitive | None, ...]:
    names = ("enter", "values", "leave", "begin_run", "end_run", "gradient", "parameter_gradients")
    try:
        if _can_run():
            return tuple(_operator(name) for name in names)
    except TypeError:  # MS_CUSTOM_AOT_WHITE_LIST excludes the path, or it contains a colon
        pass
    reports.library = None  # use the operators in Python
    return (None,) * len(names)


(
    native_enter,
    native_values,
    native_leave,
    native_begin_run,
    native_end_run,
    native_gradient,
    native_gradients,
) = _operators()
