"""Tensors of the toy framework."""

import numpy as np

from msprobe.frameworks.interface import Refusal, Refused

from .library import Tensor


class Tensors:
    type_name = "toy.Tensor"

    def is_tensor(self, value):
        return isinstance(value, Tensor)

    def settle(self, tensors=()):
        pass

    def array(self, tensor):
        return tensor.array

    array_to_save = array

    def text(self, tensor):
        return str(tensor.shape), str(tensor.dtype)

    def dtype(self, tensor):
        return str(tensor.dtype)

    def dtype_of_name(self, name):
        return np.dtype(name.rpartition(".")[2])

    def create(self, array, dtype, place=None):
        return Tensor(np.array(array, dtype))

    def refuse(self, tensors):
        if not all(map(self.is_tensor, tensors)):
            raise Refused(Refusal.FOREIGN)

    def float_dtype(self, tensor):
        return tensor.dtype

    def copy(self, tensor):
        return Tensor(tensor.array.copy())

    recorded_copy = copy

    def with_values(self, values, like):
        return Tensor(np.array(values, like.dtype))

    def resized(self, values, like):
        return Tensor(np.array(values, like.dtype))

    def raised(self, tensor, *, recorded=False):
        return Tensor(tensor.array.astype(np.float32))

    def on_cpu(self, tensor, *, recorded=False):
        return self.copy(tensor)

    def is_on_cpu(self, tensor):
        return True

    def cast(self, tensor, like):
        return Tensor(tensor.array.astype(like.dtype))

    def memory(self, tensor):
        start = tensor.array.ctypes.data
        return start, start + tensor.array.nbytes

    def version(self, tensor):
        return None

    def write(self, tensor, values):
        tensor.array[...] = values.array


CAPABILITY = Tensors()
