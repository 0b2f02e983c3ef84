"""Reports of running graphs by operators of Python, one for each value, where those in C were not built."""

import numpy as np

from msprobe.base.statistic import Array
from msprobe.graph_save.operators import number, operator

from . import reports


def _one(result: int) -> Array:
    return np.array([result], np.int32)


# An operator's inputs are the parameters of its function, each by its name.


def _begin(place: Array) -> Array:
    return _one(reports.enter(number(place)))


def _end(place: Array, token: Array) -> Array:
    return _one(reports.leave(number(place), number(token)))


def _begin_run(model: Array) -> Array:
    return _one(reports.begin_run(number(model)))


def _end_run(token: Array) -> Array:
    return _one(reports.end_run(number(token)))


def _take(place: Array, token: Array, array: Array) -> Array:
    return _one(reports.values(number(place), number(token), array))


def _take_empty(place: Array, token: Array) -> Array:
    return _one(reports.values(number(place), number(token), None))


def _take_gradient(place: Array, token: Array, array: Array) -> Array:
    return _one(reports.gradient(number(place), number(token), array))


def _take_empty_gradient(place: Array, token: Array) -> Array:
    return _one(reports.gradient(number(place), number(token), None))


def _listen(place: Array) -> Array:
    return _one(reports.is_listening())


def _take_parameter_gradient(place: Array, token: Array, array: Array) -> Array:
    return _one(reports.parameter_gradients(number(place), array))


beginning = operator(_begin)
ending = operator(_end)
beginning_run = operator(_begin_run)
ending_run = operator(_end_run)
taking = operator(_take)
taking_empty = operator(_take_empty)
taking_gradient = operator(_take_gradient)
taking_empty_gradient = operator(_take_empty_gradient)
listening = operator(_listen)
taking_parameter_gradient = operator(_take_parameter_gradient)
