"""Reports of running graphs by operators in Python, one for each value; used if the operators in C were not built."""

import numpy as np

from msprobe.base.statistic import Array
from msprobe.graph_save.operators import number, operator

from . import reports


def _as_result(result: int) -> Array:
    return np.array([result], np.int32)


# The inputs of an operator are the named parameters of its function.


def _begin(place: Array) -> Array:
    return _as_result(reports.enter(number(place)))


def _end(place: Array, token: Array) -> Array:
    return _as_result(reports.leave(number(place), number(token)))


def _begin_run(model: Array) -> Array:
    return _as_result(reports.begin_run(number(model)))


def _end_run(token: Array) -> Array:
    return _as_result(reports.end_run(number(token)))


def _value(place: Array, token: Array, array: Array) -> Array:
    return _as_result(reports.values(number(place), number(token), array))


def _empty_value(place: Array, token: Array) -> Array:
    return _as_result(reports.values(number(place), number(token), None))


def _gradient(place: Array, token: Array, array: Array) -> Array:
    return _as_result(reports.gradient(number(place), number(token), array))


def _empty_gradient(place: Array, token: Array) -> Array:
    return _as_result(reports.gradient(number(place), number(token), None))


def _is_listening(place: Array) -> Array:
    return _as_result(reports.is_listening())


def _parameter_gradient(place: Array, token: Array, array: Array) -> Array:
    return _as_result(reports.parameter_gradients(number(place), array))


begin_operator = operator(_begin)
end_operator = operator(_end)
begin_run_operator = operator(_begin_run)
end_run_operator = operator(_end_run)
value_operator = operator(_value)
empty_value_operator = operator(_empty_value)
gradient_operator = operator(_gradient)
empty_gradient_operator = operator(_empty_gradient)
is_listening_operator = operator(_is_listening)
parameter_gradient_operator = operator(_parameter_gradient)
