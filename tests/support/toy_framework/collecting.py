"""How calls of the toy framework are recorded."""

import sys

import numpy as np

from msprobe.base.framework import ModuleKind
from msprobe.cell_dump import describer
from msprobe.cell_dump.call_sites import Users
from msprobe.cell_dump.collective import Collectives
from msprobe.cell_dump.framework import Framework, NoGradients
from msprobe.cell_dump.functions import FunctionCalls

from . import library


class Describer(describer.Describer):
    kind = "toy.Tensor"
    dtypes = ((np.dtype, "toy.dtype"),)
    tensors = library.Tensor
    letters = {}  # noqa: RUF012  # the C extension reads no tensor of this framework
    has_addresses = False
    reads_in_place = staticmethod(lambda tensor: False)

    def without_data(self, tensor):
        return ""

    def elements(self, tensor):
        return tensor.array

    def parameters_of(self, module):
        return list(module._parameters.items()) or None


class Calls(FunctionCalls):
    users = Users(layers=())
    tensor = library.Tensor
    collectives = Collectives(message_type="", handles=(), messages=())
    golden = "the toy framework"

    @staticmethod
    def functions():
        return ((sys.modules[library.__name__], name, f"Functional.{name}") for name in ("matmul", "relu"))


class Toy(Framework):
    kind = ModuleKind(prefix="Module", children="_modules", public="toy_framework.library.Module")
    module = library.Module
    calls = Calls

    @staticmethod
    def own_parameters(module):
        return list(module._parameters.items())

    def describer(self, writer, **options):
        return Describer(writer, **options)

    def gradients(self, hook, flush, names):
        return NoGradients(names)


CAPABILITY = Toy()
