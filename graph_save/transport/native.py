"""Reports of running graphs by operators in C, where they were built: `graph_save/_operators.c`."""

import mindspore as ms
from mindspore import ops

from msprobe.graph_save.operators import has_tensor_dump

from . import reports


def _operator(name: str) -> ops.Primitive:
    """An operator of the extension; the framework finds it in the library that Python has loaded."""
    made: ops.Primitive = ops.Custom(
        f"{reports.library.__file__}:msprobe_{name}", out_shape=[1], out_dtype=ms.int32, func_type="aot"
    )
    made.add_prim_attr("side_effect_io", True)
    return made


def _can_run() -> bool:
    """Whether they were built, and are known to run with this version and device."""
    version = tuple(int(part) for part in ms.__version__.split(".")[:2])
    return reports.library is not None and version >= (2, 10) and not has_tensor_dump()


def _operators() -> tuple[ops.Primitive | None, ...]:
    names = ("enter", "values", "leave", "begin_run", "end_run", "gradient", "parameter_gradients")
    try:
        if _can_run():
            return tuple(_operator(name) for name in names)
    except TypeError:  # MS_CUSTOM_AOT_WHITE_LIST forbids the path, or a colon is in it
        pass
    reports.library = None  # the operators of Python serve
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
